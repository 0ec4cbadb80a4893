// Package primitives holds the operations that programs are made of, one file
// each: the builder that model code calls, type inference, derivative,
// placement, lowering with the host kernel, and the entry in the reference.
//
// Builders run inside graph.Trace. A mistake in their arguments stops the
// trace with an error at the user's line. Operations that JAX has too carry the
// name and the meaning of jax.lax.
package primitives
