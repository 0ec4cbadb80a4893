//go:build race

package fuzzprog

// raced says whether the race detector is on.
const raced = true
