// Package kernel holds the numeric loops that primitives share, on plain
// slices: matrix products, also of weights in blocks, elementwise functions, sums and
// extremes, random bits, attention, norms, softmax, gates, a router's scores, AdamW. It
// knows nothing of graphs or devices, and of arrays the 16-bit formats alone.
//
// Every loop adds in an order that its comment states, so that a result does not
// depend on how the work was split; an element of an elementwise result depends on
// its own arguments only, never on where it stands. Sums, random bits and uniform
// numbers have the same bits on every machine. Matrix products, and float32
// exponentials and what is made of them, have the same bits on machines that use
// the same kernels, and those of avx2, avx512 and neon agree; see Gemm, Exp and
// Selected. Products of bf16 have the same bits where the same engine multiplies
// them, which with avx512 depends on the processor; see GemmHalf and SelectedHalf.
// Norms, rotations, AdamW, all that IEEE 754 defines, and products with weights in
// blocks, which are sums of integers (see QuantGemm), have the same bits with all
// kernels. Logarithms, sines, powers, erf and gelu of float32 are computed in float64
// with all of them, and so differ only where a result is nearly a tie.
//
// What goes through math.Exp, math.Log or math.Log1p (with the portable kernels, in
// float64, in normal numbers) may differ in the last bit between architectures: Go
// writes some of these in assembly and may fuse products and sums in the others. In
// this package it may not: every product that is added is converted first, which
// forbids it. testdata/bits.txt holds what all machines agree on.
package kernel

// Float is an arithmetic element type. The 16-bit formats are widened first.
type Float interface{ ~float32 | ~float64 }
