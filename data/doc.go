// Package data turns texts into the batches of a training run.
//
// Build cuts files of text, of JSON lines and of conversations into tokens, once, and writes
// them to a file of tokens. Open maps such files. A Set gives the batch of every step:
//
//	_, err := data.Build(ctx, "train.tokens", []string{"a.jsonl", "b.txt"}, data.Options{Tokenizer: tok})
//	set, err := data.Open("train.tokens")
//	batches, err := set.Batches(data.Order{Rows: 16, Length: 2048, Seed: 1})
//	tokens, err := session.PutParts("tokens", batches.Step(n).Fill(data.Tokens))
//
// A batch is a function of the number of its step: a run that goes on from step n reads what an
// undisturbed one reads there, on any mesh and any number of processes, and every rank reads
// only its own rows.
//
// Attention does not cross documents, and no token is predicted from another document, if the
// program uses the arrays Weights, Positions and Documents beside Tokens and Targets; see Apart.
package data
