// Package optimize rewrites programs before placing them: it folds constants, removes
// equations changing nothing, merges equal equations, and drops equations that no result
// depends on.
//
// A pass is a pure function from program to program. It makes new values and does not
// change its argument. Every pass keeps three promises. Begin with Program, which runs
// all passes.
//
// Results have the same bits, on one rank and on any mesh, for all inputs, including -0,
// infinities and NaN. So x + 0 is not replaced by x, because -0 + 0 is 0. There is one
// exception: a signaling NaN may pass through although the kernel would make it quiet. No
// kernel produces one.
//
// Collectives add the same numbers. A rewrite never lets a sum stay pending past an
// equation that would have completed it, because summing before scaling gives other bits
// than scaling first. So no constant is replaced by the zero that placement rules
// recognise.
//
// A program that could be placed before can be placed afterwards, with the same placement
// of results.
//
// The package is used between package graph and the engines. It knows primitives by their
// Go types, which engines may not do (see internal/policy), so a user's primitive with
// the name mul is not mistaken for the library's.
package optimize
