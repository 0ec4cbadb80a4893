// Package pack copies blocks of matrices to where products find them: rows side by side,
// or rows as columns.
package pack

//go:generate go run -C ../asm . -set pack -out ../pack/asm_pack_amd64.s -stubs ../pack/asm_pack_amd64.go -pkg pack
//go:generate go run ../neon -set pack -out asm_pack_arm64.s -stubs asm_pack_arm64.go -pkg pack
