// Package text turns files into the bytes for training a byte-level language model: a corpus with a held-out part,
// batches depending only on a seed and a step, and the entropy of its byte frequencies as a yardstick.
//
// Begin with Load. If no files are named, the corpus is the source of the Go standard library, which is present on every
// machine that can build this module.
package text
