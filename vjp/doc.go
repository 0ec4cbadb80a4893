// Package vjp differentiates programs in reverse: Gradients inside a trace,
// Grad and Pullback from program to program, and Check, which compares a
// derivative with central differences.
//
// It runs before placement, so no rule knows of a mesh or of a collective.
//
// Begin with Gradients inside a Go function that is traced, or with Grad for an existing
// program. Custom gives a function a derivative of your own. Second derivatives are
// derivatives of derivatives; there is no forward mode.
package vjp
