// Package metaltest compares gomoe's Metal kernels with the host's, instruction
// by instruction, on the emulated GPU of metal/internal/emu.
//
// A program is compiled as for a Metal device and runs on the host, which is
// the specification. Every instruction that metal/kernels has a kernel for is
// run again on the emulated GPU, on copies of the same arguments: in three
// orders of its threads, and with simdgroup matrices both distributed and held
// by one lane. The six results must be the same bits, and as near to the
// host's as the kernel says.
//
// Arguments lie between pages that cannot be touched. Results, scratch and
// threadgroup memory hold NaNs before; so do rows of ragged arguments that are
// not in use. Arguments must be unchanged, but where a result has their memory,
// and rows past the last zone must not be written. A kernel has no more
// threadgroup memory than its kernels.Function says.
package metaltest
