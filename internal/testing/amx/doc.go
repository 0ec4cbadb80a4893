// Command amx runs a program on a processor of 64 bits that has no AMX, and computes
// AMX's instructions for it:
//
//	go test -tags amx_emulated -exec "amx" ./internal/kernel/gemm
//
// The processor refuses each such instruction. The command, which traces the program,
// decodes the instruction, computes it on tiles that it keeps for each thread, and
// continues the program after it. So the kernels' own machine code runs, with its
// addresses, strides and counts; only the tiles are a model. With the tag amx_emulated,
// package kernel assumes that the processor has AMX.
//
// It knows the instructions that the kernels use: LDTILECFG, TILERELEASE, TILEZERO,
// TILELOADD, TILESTORED, TDPBF16PS, TDPBSSD and TDPBSUD. Another one ends the program
// with SIGILL. It needs Linux on amd64, and permission to trace its own children.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2.
package main
