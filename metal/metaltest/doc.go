// Package metaltest compares gomoe's Metal kernels with the host's, instruction by instruction, on
// the emulated GPU of metal/internal/emu.
//
// A program is compiled as for a Metal device and runs on the host, which is the specification.
// Every instruction with a kernel in metal/kernels is rerun on the emulated GPU, on copies of the
// same arguments: in three orders of its threads, with simdgroup matrices both distributed and held
// by one lane, and once more in a build checking fences. All seven results must have the same bits,
// and must be within the kernel's tolerance of the host's.
//
// Guard pages surround every argument. Before the run, results, scratch memory, threadgroup memory
// and the unused rows of ragged arguments hold NaNs. After the run, an argument must be unchanged,
// unless a result shares its memory, and rows past the last zone must not be written. A kernel has
// no more threadgroup memory than its kernels.Function says.
package metaltest
