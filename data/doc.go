// Package data turns texts into the batches of a training run.
//
// Build tokenizes files of text, JSON lines and conversations, once, and writes a file of tokens. Open maps such
// files into a Set, and a Set provides the batch of every step:
//
//	_, err := data.Build(ctx, "train.tokens", []string{"a.jsonl", "b.txt"}, data.Options{Tokenizer: tok})
//	set, err := data.Open("train.tokens")
//	batches, err := set.Batches(data.Order{Rows: 16, Length: 2048, Seed: 1})
//	tokens, err := session.PutParts("tokens", batches.Step(n).Fill(data.Tokens))
//
// A batch depends only on the number of its step: a run resumed at step n reads the same batch as an uninterrupted
// one, on any mesh and any number of processes, and every rank reads only its own rows.
//
// To keep attention and predictions from crossing documents, the program must use the arrays Weights, Positions and
// Documents in addition to Tokens and Targets; see Apart. The package downloads nothing and filters nothing.
//
// Begin with Build and Open. Package data/text provides raw bytes without a tokenizer.
package data
