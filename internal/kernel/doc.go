// Package kernel chooses the kernels of this process: the numeric loops, in assembly or
// plain Go, that the packages below it hold and that primitives share. Kernels work on
// plain slices. They know nothing of graphs or devices; of package array they use only
// the 16-bit formats.
//
// Every loop adds in an order that its comment states, so that a result does not
// depend on how the work was split; an element of an elementwise result depends on
// its own arguments only, never on where it stands. Sums, random bits and uniform
// numbers have the same bits on every machine. Matrix products, and float32
// exponentials and what is made of them, have the same bits on machines that use
// the same kernels, and those of avx2, avx512 and neon agree; see gemm.Multiply,
// vector.Exp and Selected. Products of bf16 have the same bits where the same engine
// multiplies them, which with avx512 depends on the processor; see gemm.MultiplyHalf and
// gemm.SelectedHalf.
// Norms, rotations, AdamW, all that IEEE 754 defines, and products with weights in
// blocks, which are sums of integers (see blocks.Multiply), have the same bits with all
// kernels. Logarithms, sines, powers, erf and gelu of float32 are computed in float64
// with all of them, and so differ only where a result is nearly a tie.
//
// What goes through math.Exp, math.Log or math.Log1p (with the portable kernels, in
// float64, in normal numbers) may differ in the last bit between architectures: Go
// writes some of these in assembly and may fuse products and sums in the others. In
// these packages it may not: every product that is added is converted first, which
// forbids it. The files testdata/bits.txt hold what all machines agree on.
package kernel
