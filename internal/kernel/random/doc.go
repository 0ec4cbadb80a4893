// Package random makes random bits and numbers like jax.random: Threefry's bits, and
// uniform and normal numbers. Bits and uniform numbers are the same with all kernels and
// on every machine.
package random

//go:generate go run -C ../asm . -set random -out ../random/asm_random_amd64.s -stubs ../random/asm_random_amd64.go -pkg random
//go:generate go run ../neon -set random -out asm_random_arm64.s -stubs asm_random_arm64.go -pkg random
