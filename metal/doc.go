// Package metal runs plans on Apple's GPUs: its Device implements runtime.Device.
//
// Open returns the system's GPU. Emulated runs the same driver and the same kernels on Linux, over
// a stand-in for Metal with a GPU emulated on the processor. It tests the correctness of results
// and of waits, not speed.
//
// The parts are in packages below: metal/kernels selects the kernels, in Metal's language, for the
// instructions of a plan; metal/mtl sends the messages to Metal.
//
// # Placement of the work
//
// Each rank's instructions between two waits of the host, or between its collectives, form one
// command buffer. It has a serial encoder, so that every dispatch sees the writes of earlier
// dispatches, and a debug group per instruction, showing the instruction's name and the user's line
// in Metal's debugger. Before the host reads or overwrites memory used by a command buffer, it
// waits for it; package lowering says where (see lowering.Schedule).
//
// Host and GPU share the memory of arrays; nothing is copied. It is memory of the device, or memory
// through which ranks exchange data, if that starts at a page boundary.
//
// Programs using this package load libraries of the system; on Linux they are linked with the C
// library. Package gomoe uses this package on macOS, and on other systems with the build tag
// native.
//
// Begin with gomoe.OpenDevice, or with Open here. The package makes no plans: package lowering does
// that, for the target kernels.Metal.
package metal
