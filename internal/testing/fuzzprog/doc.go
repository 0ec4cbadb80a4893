// Package fuzzprog makes random programs over the real primitives, with inputs,
// meshes and placements for them. Its tests hold the engines to what is true of
// every program: the text form, one rank against several, derivatives, memory.
package fuzzprog
