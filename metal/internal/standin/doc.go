// Package standin stands in for Apple's Objective-C runtime and Metal on Linux, so that
// package mtl, the very same driver, runs there, over kernels that package emu compiles.
// It is C++ that clang builds: an objc_msgSend, classes with reference counts and
// autorelease pools, and all of Metal that the driver uses.
//
// It is stricter than Metal:
//
//   - It is lazy. Nothing runs before somebody waits, and then only what is needed for
//     that wait, in the order of the queues. Memory begins as 0xFF bytes, which are NaN
//     and -1. So who reads before the wait, or waits for something else, reads poison,
//     every time.
//   - It checks as Metal's debug layer does, and more: arguments that are not bound,
//     memory of threadgroups without a length, encoders left open, messages to objects
//     that were released. What it finds is a violation in the Report, and what was asked
//     for does not happen.
//   - Buffers lie before pages that nobody may touch, and so do the bytes of setBytes.
//     A kernel that reads or writes there, or deadlocks, fails its command buffer, whose
//     error says what happened.
//   - Dispatches of a concurrent encoder run in the order of Options, unless a barrier
//     is between them.
//   - It counts living objects, and what is autoreleased outside of pools.
//
// It does not show what only Apple's compiler and GPUs can: what they reject, rounding
// under fast maths, weak ordering of memory, and speed.
package standin
