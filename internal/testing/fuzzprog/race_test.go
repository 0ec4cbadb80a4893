//go:build race

package fuzzprog

// raced says that the race detector watches.
const raced = true
