// Package emu is an emulated GPU: it compiles the Metal Shading Language for
// this processor and runs kernels with all threads of a threadgroup, barriers,
// simdgroups and atomics, so that the very text that a Mac compiles is tested
// where there is none.
//
// [Find] looks for clang 17 or newer, [Compiler.Build] makes a shared object
// of a source, [Open] loads it and [Library.Run] runs a kernel of it. Nothing
// needs cgo. Loading works on linux/amd64 and linux/arm64.
//
// # What it finds
//
// A threadgroup runs on one OS thread, a fibre per Metal thread, in one of
// three orders: what is right in one only has a barrier too few. Threadgroup
// memory begins as NaN, so a row that nobody wrote shows. Errors, not wrong
// numbers, are: threads that wait for each other at different barriers or
// simdgroup operations; a thread that returns before a barrier; more than 32
// KiB of threadgroup memory, or a store past an array of it; an access outside
// of every [Buffer], with the buffer and the byte; endless loops, once the
// context ends; with [BuildOptions.Lint] pointers that change their address
// space; and with [BuildOptions.Fences] a read of what another thread of the
// threadgroup has written, if no barrier with the flag of such memory lies
// between.
//
// # What it does not find
//
// What only Apple's compiler rejects. What other kinds of arithmetic do than
// those that [BuildOptions] and [Launch.Flush] have: by default products and
// sums are as written, never fused. A memory order weaker than sequential
// consistency between threadgroups. Too many registers. Speed.
//
// It is stricter than a GPU in some things. A simdgroup operation waits for
// every lane that has not returned, so one inside a branch that only some
// lanes take is reported as a deadlock. Vectors are not initialised with braces
// where a parameter is passed, vectors of bool have no .x, structs and packed
// vectors are not copied whole out of device memory when linting, and textures,
// MetalPerformancePrimitives and dynamic libraries are not there.
package emu
