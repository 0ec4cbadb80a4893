// Package graph holds programs: typed values in single-assignment form, the
// equations that define them, the tracer that records a Go function as a
// program, and the text form that a program prints to and is parsed from.
//
// It knows no primitive but the four structural ones that the engines above it
// need ([FullOp], [AddAnyOp], [PlaceLikeOp], [CustomOp]), and it imports no other
// package of the module.
//
// Begin with [Trace] to make a program, [Parse] to read one, and [Check] to hold one to the rules.
// A program is not run here: package gomoe does that.
//
// A builder of your own calls [Helper], so that what it builds carries the line of its caller.
package graph
