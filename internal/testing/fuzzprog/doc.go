// Package fuzzprog makes random programs of the real primitives, with inputs,
// meshes and placements for them. Its tests check the engines for what holds for
// every program: the text form, one rank against several, derivatives, memory.
package fuzzprog
