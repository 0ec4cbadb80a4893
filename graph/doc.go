// Package graph holds programs: typed values in single-assignment form, the
// equations that define them, the tracer that records a Go function as a
// program, and the text form that a program prints to and is parsed from.
//
// It knows no primitive but the four structural ones that the engines above it
// need ([FullOp], [AddAnyOp], [PlaceLikeOp], [CustomOp]), and it imports no other
// package of the module.
package graph
