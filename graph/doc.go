// Package graph holds programs: typed values in single-assignment form, the equations
// defining them, the tracer recording a Go function as a program, and the text form that
// a program prints to and is parsed from.
//
// It has no primitives except the four structural ones that the engines above it need
// ([FullOp], [AddAnyOp], [PlaceLikeOp], [CustomOp]), and it imports no other package of
// the module.
//
// Begin with [Trace] to make a program, [Parse] to read one, and [Check] to check one.
// This package does not run programs: package gomoe does.
//
// Builders that you write call [Helper], so that their equations carry the line of the
// caller.
package graph
