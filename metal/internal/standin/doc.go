// Package standin stands in for Apple's Objective-C runtime and Metal on Linux, so that
// package mtl, the very same driver, runs there, over kernels that package emu compiles.
// It is C++ that clang builds: an objc_msgSend, classes with reference counts and
// autorelease pools, and all of Metal that the driver uses.
//
// It is stricter than Metal:
//
//   - It is lazy. Nothing runs before somebody waits, and then only what is needed for
//     that wait, in the order of the queues. Memory begins as 0xFF bytes, which are NaN
//     and -1. So code that reads before the wait, or that waits for something else, reads
//     this poison every time.
//   - It checks as Metal's debug layer does, and more: arguments that are not bound,
//     memory of threadgroups without a length, encoders left open, libraries without a
//     language version, messages to objects that were released. Such a message does
//     nothing, and the Report lists it as a violation.
//   - Buffers lie before pages that nobody may touch, and so do the bytes of setBytes.
//     A kernel that reads or writes there, or deadlocks, fails its command buffer, whose
//     error says what happened.
//   - Dispatches of a concurrent encoder run in the order of Options, unless a barrier
//     is between them.
//   - It counts living objects, and objects that are autoreleased outside of pools.
//
// Only Apple's compiler and GPUs show what they reject, how they round under fast math, how
// weakly they order memory, and how fast they are.
package standin
