// Package text turns files into the bytes a byte-level language model is
// trained on: a corpus with a held-out part, batches that depend on a seed and
// a step only, and the entropy of its byte frequencies as a yardstick.
//
// Without named files the corpus is the source of the Go standard library,
// which every machine that can build this module has.
package text
