// Package mtl drives Metal: devices, queues, shared memory, libraries compiled from source,
// pipelines, command buffers and events, without cgo and without Objective-C blocks.
//
// Every method sends messages to Metal's objects through objc_msgSend, called by way of package
// purego. System loads Apple's libraries. Load loads others, such as the stand-in of package
// metal/internal/standin, so that the same driver runs on Linux.
//
// # Ownership
//
// Everything returned by a method and having a Close belongs to the caller, who must close it;
// closing twice does nothing. A command buffer retains the objects it uses until it has completed,
// so a Buffer may be closed while the GPU is working on it. That holds for the object only, not for
// the memory under a Buffer of BufferOver: its owner must keep it mapped until the command buffers
// using it have completed.
//
// # Autorelease pools
//
// Metal autoreleases command buffers, encoders, strings and errors. The driver retains the objects
// it returns, and has pools around its own messages. Objects autoreleased by Metal during encoding
// are freed only by a pool around the encoding, on one thread of the system. So encode inside
// Runtime.Pool, or with CommandQueue.Encode, and wait outside of it.
//
// # Memory and time
//
// The host and the GPU share a Buffer's memory, and only waiting orders their accesses. Wait for
// the command buffer producing the results, or for an event that it signals after them; waiting for
// another command buffer is not enough. The waits are CommandBuffer.Wait and SharedEvent.Wait. Both
// end when their context ends; the GPU's work does not.
//
// Several goroutines may call methods at once. The methods of one CommandBuffer and its encoders,
// up to Commit, must be called by one goroutine at a time.
package mtl
