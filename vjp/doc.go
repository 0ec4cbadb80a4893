// Package vjp differentiates programs in reverse: Gradients inside a trace,
// Grad and Pullback from program to program, and Check, which compares a
// derivative with central differences.
//
// It runs before placement, so no rule knows of a mesh or of a collective.
package vjp
