// Package lowering turns a placed program into a plan: a list of kernels and
// collectives over storage slots that every rank runs alike.
//
// With Options.Fuse two passes rewrite the plan. The first joins elementwise
// instructions into instructions that compute their arrays chunk by chunk: all
// kernels run on a chunk while it is in the cache, and results that only these
// kernels read are never stored. Constants and broadcasts that only these kernels
// read are made chunk by chunk too. The second pass lets results of elementwise
// instructions take the memory of arguments that are not read afterwards. An
// element of a result depends only on the same element of the arguments, so neither
// pass changes a bit of a result.
//
// With Options.Keep, matrix products whose weights stay the same get copies of the weights
// in the order in which the products read them. A copy is a buffer of the plan, made by an
// instruction of the plan, which the runtime leaves out in most steps.
//
// Primitives implement Rule and emit instructions. Package exec runs instructions inside a
// step; package collective is how they exchange data with other ranks. Begin with Lower,
// and with the plan that `gomoe plan` prints.
package lowering
