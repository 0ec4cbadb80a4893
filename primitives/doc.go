// Package primitives holds the operations that programs are made of, one file
// each: the builder that model code calls, type inference, derivative,
// placement, lowering with the host kernel, and the entry in the reference.
//
// Builders run inside graph.Trace. A mistake in their arguments stops the
// trace with an error at the user's line. Operations that JAX has too carry the
// name and the meaning of jax.lax.
//
// Begin with MatMul and the elementwise operations, and for a mixture of experts with Route,
// Prepare, DispatchWeighted, GroupedMatMul and Combine. docs/reference.md has every operation
// with its formula and its placements. The builders record equations and compute nothing.
// To write an operation of your own, read docs/add-a-primitive.md.
package primitives
