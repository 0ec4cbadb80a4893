// Package kernel holds the numeric loops that primitives share, on plain
// slices: matrix products, random bits, attention. It knows nothing of graphs or
// devices, and of arrays the 16-bit formats alone.
//
// Every loop adds in an order that its comment states, and rounds every product
// before it adds it, so that a result has the same bits on every machine and
// however the work was split.
package kernel

// Float is an arithmetic element type. The 16-bit formats are widened first.
type Float interface{ ~float32 | ~float64 }
