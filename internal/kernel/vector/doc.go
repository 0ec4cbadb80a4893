// Package vector holds loops over slices: elementwise functions and their gradients,
// gates, AdamW, comparisons and choices, sums, extremes, and the parts of softmax.
//
// An element of an elementwise result depends on its own arguments only, never on its
// position. Sums are added in the order documented in their comments, and have the same
// bits with all kernels.
package vector

//go:generate go run -C ../asm . -set loops -out ../vector/asm_loops_amd64.s -stubs ../vector/asm_loops_amd64.go -pkg vector
//go:generate go run -C ../asm . -set math -out ../vector/asm_math_amd64.s -stubs ../vector/asm_math_amd64.go -pkg vector
//go:generate go run -C ../asm . -set lines -out ../vector/asm_lines_amd64.s -stubs ../vector/asm_lines_amd64.go -pkg vector
//go:generate go run ../neon -set loops -out asm_loops_arm64.s -stubs asm_loops_arm64.go -pkg vector
//go:generate go run ../neon -set math -out asm_math_arm64.s -stubs asm_math_arm64.go -pkg vector
