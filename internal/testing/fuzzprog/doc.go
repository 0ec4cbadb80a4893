// Package fuzzprog makes random programs of the real primitives, with inputs, meshes and
// placements for them. Its tests check properties holding for every program: the text
// form, one rank against several, derivatives, and memory.
package fuzzprog
