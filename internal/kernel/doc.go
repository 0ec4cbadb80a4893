// Package kernel holds the numeric loops that primitives share, on plain
// slices: matrix products, random bits, attention. It knows nothing of graphs or
// devices, and of arrays the 16-bit formats alone.
//
// Every loop adds in an order that its comment states, and rounds every product
// before it adds it, so that a result does not depend on how the work was split.
// Products, sums, random bits and uniform numbers have the same bits on every
// machine. What goes through math.Exp, math.Log or math.Log1p (attention, normal
// numbers) has not: Go writes some of these in assembly and may fuse products and
// sums in the others, so that the last bit differs between architectures.
package kernel

// Float is an arithmetic element type. The 16-bit formats are widened first.
type Float interface{ ~float32 | ~float64 }
