// Package metaltest compares gomoe's Metal kernels with the host's, instruction
// by instruction, on the emulated GPU of metal/internal/emu.
//
// A program is compiled as for a Metal device and runs on the host, which is
// the specification. Every instruction that metal/kernels has a kernel for is
// run again on the emulated GPU, on copies of the same arguments: in three
// orders of its threads, with simdgroup matrices both distributed and held by
// one lane, and once more in a build that checks fences. All seven results must
// have the same bits, and be as near to the host's as the kernel says.
//
// Pages that cannot be touched lie around every argument. Before the run,
// results, scratch memory, threadgroup memory and the unused rows of ragged
// arguments hold NaNs. After the run, an argument must be unchanged, unless a
// result shares its memory, and rows past the last zone must not be written. A
// kernel has no more threadgroup memory than its kernels.Function says.
package metaltest
