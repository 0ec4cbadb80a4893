// Package pack copies blocks of matrices to the form read by products: with contiguous
// rows, or transposed.
package pack

//go:generate go run -C ../asm . -set pack -out ../pack/asm_pack_amd64.s -stubs ../pack/asm_pack_amd64.go -pkg pack
//go:generate go run ../neon -set pack -out asm_pack_arm64.s -stubs asm_pack_arm64.go -pkg pack
