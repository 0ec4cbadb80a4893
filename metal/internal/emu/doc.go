// Package emu is an emulated GPU: it compiles the Metal Shading Language for
// this processor and runs kernels with all threads of a threadgroup, barriers,
// simdgroups and atomics, so that the very text that a Mac compiles is tested
// on machines without Metal.
//
// Begin with [Find], which looks for clang 17 or newer. [Compiler.Build] compiles
// a source to a shared object, [Open] loads the object, and [Library.Run] runs one
// of its kernels. None of this needs cgo. Loading works on linux/amd64 and
// linux/arm64.
//
// # What it finds
//
// A threadgroup runs on one OS thread, with one fibre for each Metal thread. The
// fibres run in one of three orders; a kernel that is right in only one of them
// lacks a barrier. Threadgroup memory begins as NaN, so that a row that nobody
// wrote can be told. These mistakes are reported as errors:
//
//   - threads that wait for each other at different barriers or simdgroup
//     operations, and a thread that returns before a barrier;
//   - more than 32 KiB of threadgroup memory, or a store past an array in it;
//   - an access outside of every [Buffer]; the error names the buffer and the byte
//     if the address is near a buffer;
//   - an endless loop, once the context ends;
//   - with [BuildOptions.Lint], a pointer that changes its address space;
//   - with [BuildOptions.Fences], a read of what another thread of the threadgroup
//     has written, if no barrier with the flag of that kind of memory lies between.
//
// # What it does not find
//
// The emulated GPU does not find code that only Apple's compiler rejects, kernels
// that need too many registers, or slow kernels. It has no memory order between
// threadgroups that is weaker than sequential consistency. It has only the kinds of
// arithmetic that [BuildOptions] and [Launch.Flush] select: by default products
// and sums are computed as written and never fused.
//
// It is stricter than a GPU in some things. A simdgroup operation waits for
// every lane that has not returned, so an operation inside a branch that only some
// lanes take is reported as a deadlock. A vector in braces cannot be passed as a
// parameter, vectors of bool have no .x, and the lint does not allow that structs and
// packed vectors are copied whole out of device memory. Textures,
// MetalPerformancePrimitives and dynamic libraries are not supported.
package emu
