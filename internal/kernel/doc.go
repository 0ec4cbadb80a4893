// Package kernel holds the numeric loops that primitives share, on plain
// slices: matrix products, also with weights in blocks, random bits, attention, softmax, gates, AdamW. It knows
// nothing of graphs or devices, and of arrays the 16-bit formats alone.
//
// Every loop adds in an order that its comment states, so that a result does not
// depend on how the work was split; an element of an elementwise result depends on
// its own arguments only, never on where it stands. Sums, random bits and uniform
// numbers have the same bits on every machine. Matrix products, and float32
// exponentials and what is made of them, have the same bits on machines that use
// the same kernels, and those of avx2 and avx512 agree; see Gemm, Exp and
// Selected. AdamW, and products with weights in blocks, which are sums of integers,
// have the same bits with all kernels; see QuantGemm. What goes through math.Exp,
// math.Log or math.Log1p (with the portable kernels, in float64, in normal numbers)
// may differ in the last bit between architectures: Go writes some of these in
// assembly and may fuse products and sums in the others.
package kernel

// Float is an arithmetic element type. The 16-bit formats are widened first.
type Float interface{ ~float32 | ~float64 }
