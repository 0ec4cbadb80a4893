// Package norm holds the kernels that normalise rows: RMS and layer norm, softmax,
// log-sum-exp, a router's scores, and their gradients. It also holds RoPE's rotation of
// pairs, another loop over rows.
package norm

//go:generate go run -C ../asm . -set norm -out ../norm/asm_norm_amd64.s -stubs ../norm/asm_norm_amd64.go -pkg norm
//go:generate go run -C ../asm . -set softmax -out ../norm/asm_softmax_amd64.s -stubs ../norm/asm_softmax_amd64.go -pkg norm
//go:generate go run ../neon -set norm -out asm_norm_arm64.s -stubs asm_norm_arm64.go -pkg norm
//go:generate go run ../neon -set softmax -out asm_softmax_arm64.s -stubs asm_softmax_arm64.go -pkg norm
