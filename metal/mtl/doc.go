// Package mtl drives Metal: devices, queues, shared memory, libraries compiled from
// source, pipelines, command buffers and events, without cgo and without
// Objective-C blocks.
//
// Objects of Metal are messages away: every method here sends messages through
// objc_msgSend, which package purego calls. System loads Apple's libraries; Load
// takes others, as the stand-in of package metal/internal/standin has them, on which
// the same driver runs on Linux.
//
// # Ownership
//
// Everything that a method returns and that has a Close is the caller's, and Close
// releases it; closing twice does nothing. What a command buffer uses, it retains
// until it has completed, so that a Buffer may be closed while the GPU works on it.
// That holds for the object and not for memory under a Buffer of BufferOver, which
// stays mapped, by its owner, until the command buffers that use it have completed.
//
// # Autorelease pools
//
// Metal autoreleases: command buffers, encoders, strings and errors. The driver
// retains what it hands out, and has pools around what it asks for; but what Metal
// itself autoreleases while commands are encoded is freed by a pool around encoding,
// on one thread of the system. So encode in Runtime.Pool, or with Queue.Encode, and
// wait outside of it.
//
// # Memory and time
//
// The host and the GPU share a Buffer's memory, and nothing but a wait orders their
// accesses: wait for the command buffer whose results are read, or for an event that
// it signals behind them, not for another one that happened to be the last. Waits are
// CommandBuffer.Wait and SharedEvent.Wait; both end with their context, which does not
// end the GPU's work.
//
// Methods may be called by several goroutines at once, but those of one CommandBuffer
// and its encoders, up to Commit, by one at a time.
package mtl
