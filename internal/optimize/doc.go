// Package optimize rewrites programs before they are placed: constants are
// folded, equations that change nothing are left out, equal ones are merged,
// and those that no result depends on are dropped.
//
// A pass is a pure function from program to program. It makes new values and
// leaves those of its argument as they are. Every pass keeps three promises.
//
// Results have the same bits, on one rank and on any mesh, for all inputs: with
// -0, infinities and NaN among them. So x + 0 is not x, since -0 + 0 is 0. One
// thing is left out: a signaling NaN may pass where the kernel would quieten
// it. No kernel makes one.
//
// Collectives add the same numbers. A rewrite never lets a sum stay pending
// past an equation where it would have been added, since what is summed first
// and scaled then has other bits than what is scaled first. That is why a
// constant does not become the zero that placement rules recognise.
//
// What can be placed before can be placed afterwards, the results as before.
//
// The package lies between graph and the engines; it knows primitives by their
// Go types, which engines may not (see internal/policy), so that a primitive of
// a user with the name mul is not taken for the library's.
package optimize
