// Package attention holds scaled dot-product attention of one head, and its gradient, in
// blocks of queries and keys.
package attention

//go:generate go run -C ../asm . -set attention -out ../attention/asm_lanes_amd64.s -stubs ../attention/asm_lanes_amd64.go -pkg attention
