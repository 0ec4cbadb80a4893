// Package primitives holds the operations of programs. Model code calls builders, such as
// [MatMul] and [Route], inside [graph.Trace]. Builders record equations and compute nothing. A
// mistake in their arguments stops the trace with an error at the user's line.
//
// The name in the text form is the builder's in snake case (MatMul is a case of dot_general). Names
// and meanings are those of jax.lax where it has the operation. docs/reference.md lists all
// operations with formulas, derivatives and placements. docs/extending.md shows how to write one.
package primitives
