// Package emu is an emulated GPU: it compiles the Metal Shading Language for this processor and
// runs kernels with all threads of a threadgroup, barriers, simdgroups and atomics. So machines
// without Metal test the same text that a Mac compiles.
//
// Begin with [Find], which looks for clang 17 or newer. [Compiler.Build] compiles a source to a
// shared object, [Open] loads the object, and [Library.Run] runs one of its kernels. None of this
// needs cgo. Loading works on linux/amd64 and linux/arm64.
//
// # Mistakes it finds
//
// A threadgroup runs on one OS thread, with one fibre for each Metal thread. The fibres run in one
// of three orders; a kernel that is correct in only one of them lacks a barrier. Threadgroup memory
// is initially NaN, so that unwritten rows can be recognized. These mistakes are reported as
// errors:
//
//   - threads waiting for each other at different barriers or simdgroup
//     operations, and a thread returning before a barrier;
//   - more than 32 KiB of threadgroup memory, or a store past an array in it;
//   - an access outside of every [Buffer]; the error names the buffer and the byte
//     if the address is near a buffer;
//   - an endless loop, once the context ends;
//   - with [BuildOptions.Lint], a pointer changing its address space;
//   - with [BuildOptions.Fences], reading a value written by another thread of the
//     threadgroup without a barrier with the flag of that kind of memory in between.
//
// # Mistakes it does not find
//
// The emulated GPU does not find code that only Apple's compiler rejects, kernels needing too many
// registers, or slow kernels. Between threadgroups, its memory order is sequentially consistent,
// never weaker. It has only the kinds of arithmetic selected by [BuildOptions] and [Launch.Flush]:
// by default products and sums are computed as written and never fused.
//
// It is stricter than a GPU in some respects. A simdgroup operation waits for every lane that has
// not returned, so an operation inside a branch taken by only some lanes is reported as a deadlock.
// A vector in braces cannot be passed as a parameter, vectors of bool have no .x, and the lint does
// not allow copying whole structs and packed vectors out of device memory. Textures,
// MetalPerformancePrimitives and dynamic libraries are not supported.
package emu
