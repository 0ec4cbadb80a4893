// Package kernel chooses the kernels of this process. Kernels are numeric loops, in
// assembly or plain Go; the packages below this one hold them, and primitives share them.
// Kernels work on plain slices. They know nothing of graphs or devices; of package array
// they use only the 16-bit formats.
//
// Every loop adds in an order documented in its comment, so a result does not depend on
// the division of the work. An element of an elementwise result depends on its own
// arguments only, never on its position. Bits agree to this extent:
//
// Sums, random bits and uniform numbers have the same bits on every machine. Norms,
// rotations, AdamW, all operations that IEEE 754 defines, and products with weights in
// blocks, which are sums of integers (see blocks.Multiply), have the same bits with all
// kernels. Matrix products, and float32 exponentials and functions computed from them,
// have the same bits on machines using the same kernels, and the kernels avx2, avx512 and
// neon agree; see gemm.Multiply, vector.Exp and Selected. Products of bf16 have the same
// bits with the same engine, which with avx512 depends on the processor; see
// gemm.MultiplyHalf and gemm.SelectedHalf. Logarithms, sines, powers, erf and gelu of
// float32 are computed in float64 with all kernels, and so differ only if the exact
// result is almost halfway between two float32.
//
// Results of math.Exp, math.Log and math.Log1p may differ in the last bit between
// architectures: Go has some of these in assembly, and may fuse products and sums in the
// others. This concerns the portable kernels, float64, and normally distributed numbers.
// In these packages Go must not fuse: every product is converted before being added,
// which forbids it. The files testdata/bits.txt hold the bits on which all machines
// agree.
package kernel
