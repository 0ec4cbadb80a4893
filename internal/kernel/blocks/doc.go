// Package blocks multiplies rows of numbers by weights in the block formats of package
// quant. Products are sums of integers and have the same bits with all kernels; Multiply
// states the contract.
package blocks

//go:generate go run -C ../asm . -set blocks -out ../blocks/asm_blocks_amd64.s -stubs ../blocks/asm_blocks_amd64.go -pkg blocks
//go:generate go run -C ../asm . -set direct -out ../blocks/asm_direct_amd64.s -stubs ../blocks/asm_direct_amd64.go -pkg blocks
//go:generate go run -C ../asm . -set strips -out ../blocks/asm_strips_amd64.s -stubs ../blocks/asm_strips_amd64.go -pkg blocks
//go:generate go run ../neon -set blocks -out asm_blocks_arm64.s -stubs asm_blocks_arm64.go -pkg blocks
