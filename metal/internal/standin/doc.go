// Package standin stands in for Apple's Objective-C runtime and Metal on Linux, so that package
// mtl, the very same driver, runs there, using kernels compiled by package emu. It is C++ built by
// clang: an objc_msgSend, classes with reference counts and autorelease pools, and all of Metal
// used by the driver.
//
// It is stricter than Metal:
//
//   - It is lazy. Nothing runs before somebody waits, and then only the work needed for
//     that wait, in the order of the queues. Memory is initially 0xFF bytes, which are
//     NaN and -1. So code reading before waiting, or waiting for something else, reads
//     this poison every time.
//   - It checks as Metal's debug layer does, and more: unbound arguments, threadgroup
//     memory without a length, encoders left open, libraries without a language version,
//     messages to released objects. Such a message does nothing, and the Report lists it
//     as a violation.
//   - Buffers lie before guard pages, and so do the bytes of setBytes. A kernel reading
//     or writing there, or deadlocking, fails its command buffer, giving the reason in
//     its error.
//   - Dispatches of a concurrent encoder run in the order of Options, unless separated by
//     a barrier.
//   - It counts living objects, and objects autoreleased outside of pools.
//
// Only Apple's compiler and GPUs show the constructs they reject, their rounding under fast math,
// the weakness of their memory order, and their speed.
package standin
