// Package nn has the layers of language models, and scopes in which a model declares its
// parameters where it uses them. A model is a function of a scope and of values:
//
//	func forward(s *nn.Scope, tokens *graph.Value) *graph.Value {
//		x := nn.Embedding{Vocab: 256, Width: 64}.Apply(s.In("embed", ""), tokens)
//		x = nn.RMSNorm{Epsilon: 1e-5}.Apply(s.In("norm", ""), x)
//		return nn.Linear{Out: 256}.Apply(s.In("head", ""), x)
//	}
//
// The same function serves training, evaluation, generation, and loading: tracing it lists the
// parameters with names, types, initial values and placements.
//
// Begin with New. Matrices of linear layers are [out,in], as published models have them.
package nn
