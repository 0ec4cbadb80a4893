// Package lowering compiles a placed program to a plan: a list of kernels and collectives
// over storage slots, the same for every rank.
//
// With Options.Fuse two passes rewrite the plan. The first fuses elementwise instructions
// into instructions computing their arrays chunk by chunk: all kernels run on a chunk
// while it is in the cache, and results read only by these kernels are never stored.
// Constants and broadcasts read only by these kernels are also made chunk by chunk. The
// second pass lets results of elementwise instructions reuse the memory of arguments that
// are not read afterwards. An element of a result depends only on the same element of the
// arguments, so neither pass changes a bit of a result.
//
// With Options.Keep, matrix products get copies of constant weights, packed in the order
// read by the products. A copy is a buffer of the plan, made by an instruction of the
// plan, which the runtime skips in most steps.
//
// Primitives implement Rule and emit instructions. Package exec runs instructions inside
// a step; package collective exchanges data with other ranks. Begin with Lower, and with
// the plan that `gomoe plan` prints.
package lowering
