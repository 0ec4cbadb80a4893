// Package nn provides the layers of language models, and scopes for declaring parameters where a model uses them. A
// model is a function of a scope and of values:
//
//	func forward(s *nn.Scope, tokens *graph.Value) *graph.Value {
//		x := nn.Embedding{Vocab: 256, Width: 64}.Apply(s.In("embed", ""), tokens)
//		x = nn.RMSNorm{Epsilon: 1e-5}.Apply(s.In("norm", ""), x)
//		return nn.Linear{Out: 256}.Apply(s.In("head", ""), x)
//	}
//
// The same function serves training, evaluation, generation and checkpoint loading: tracing it lists the parameters
// with their names, types, initial values and placements. The package neither trains nor loads a model.
//
// Begin with New. Matrices of linear layers have the shape [out,in], as in published models.
package nn
