// Package lowering turns a placed program into a plan: a list of kernels and
// collectives over storage slots that every rank runs alike.
//
// With Options.Fuse two passes go over the plan. The first joins elementwise
// instructions into ones that walk their arrays in chunks: every kernel runs on
// a chunk while that is in the cache, and what only they read is never stored.
// Constants and broadcasts that only they read are made a chunk at a time. The
// second lets results of elementwise instructions take the memory of arguments
// that are read last. An element depends on its own arguments only, so neither
// changes a bit of a result.
//
// With Options.Keep, products of weights that stay the same get copies of them in the
// order in which they read them. A copy is a buffer of the plan like others, and an
// instruction that makes it, which the runtime leaves out in most steps.
//
// Primitives implement Rule and emit instructions; what these do inside a step is package
// exec, what they ask of other ranks package collective. To begin, read Lower and the plan
// that `gomoe plan` prints.
package lowering
