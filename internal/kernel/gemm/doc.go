// Package gemm computes matrix products of float32, float64 and the 16-bit formats, alone
// and fused with SwiGLU and its gradient. It also makes panels: copies of weights in the
// order read by products. Begin with Multiply and MultiplyHalf, which state the order of
// additions.
package gemm

//go:generate go run -C ../asm . -set gemm -out ../gemm/asm_float_amd64.s -stubs ../gemm/asm_float_amd64.go -pkg gemm
//go:generate go run -C ../asm . -set half -out ../gemm/asm_half_amd64.s -stubs ../gemm/asm_half_amd64.go -pkg gemm
//go:generate go run ../neon -set gemm -out asm_float_arm64.s -stubs asm_float_arm64.go -pkg gemm
