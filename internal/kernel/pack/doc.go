// Package pack copies blocks of matrices to the form that products read: with rows side
// by side, or transposed.
package pack

//go:generate go run -C ../asm . -set pack -out ../pack/asm_pack_amd64.s -stubs ../pack/asm_pack_amd64.go -pkg pack
//go:generate go run ../neon -set pack -out asm_pack_arm64.s -stubs asm_pack_arm64.go -pkg pack
