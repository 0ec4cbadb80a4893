// Package metal runs plans on Apple's GPUs: its Device implements runtime.Device.
//
// Open returns the system's GPU. Emulated runs the same driver and the same kernels on Linux,
// over a stand-in for Metal with a GPU that is emulated on the processor. It shows whether
// results are right and whether waits are where they must be; it says nothing about speed.
//
// The parts are in packages below: metal/kernels says which kernels, in Metal's language, do
// an instruction of a plan; metal/mtl sends the messages to Metal.
//
// # What runs where
//
// Each rank's instructions that lie between two waits of the host, or between its collectives,
// are one command buffer. It has a serial encoder, so that every dispatch sees what earlier
// dispatches have written, and a debug group per instruction, which shows the instruction's
// name and the user's line in Metal's debugger. The host waits for a command buffer before it
// reads or overwrites memory that the buffer uses; package lowering says where (see
// lowering.Schedule).
//
// Host and GPU share the memory of arrays; nothing is copied. It is memory of the device, or
// memory in which ranks exchange data, if that begins at a page.
//
// Programs that use this package load libraries of the system; on Linux they are linked with
// the C library. Package gomoe uses this package on macOS, and on other systems with the build
// tag native.
//
// Begin with gomoe.OpenDevice, or with Open here. The package makes no plans: package lowering
// does that, for the target kernels.Metal.
package metal
