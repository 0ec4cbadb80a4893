// Package attention computes scaled dot-product attention of one head, and its gradient,
// in blocks of queries and keys. Attention states the formula.
package attention

//go:generate go run -C ../asm . -set attention -out ../attention/asm_lanes_amd64.s -stubs ../attention/asm_lanes_amd64.go -pkg attention
