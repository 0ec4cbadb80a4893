// Package metal runs plans on Apple's GPUs: its Device is one for package runtime.
//
// Open is the system's GPU. Emulated is the same driver and the same kernels on Linux,
// over a stand-in for Metal and a GPU that is emulated on the processor: it shows whether
// results are right and waits are there, and nothing about speed.
//
// The packages below have the parts: metal/kernels says how an instruction of a plan is
// done by kernels in Metal's language, metal/mtl sends the messages to Metal.
//
// # What runs where
//
// Each rank's instructions of a plan that lie between two waits of the host, or its
// collectives, are one command buffer: a serial encoder, so that every dispatch sees what
// those before have written, with a group per instruction that has its name and the user's
// line for Metal's debugger. A wait is for one command buffer, of which the host is about
// to read or overwrite something, and ends with that; which, package lowering says (see
// lowering.Schedule).
//
// Memory of arrays is shared by host and GPU and never copied: the device's own, or such as
// ranks exchange data in, where that lies at pages.
//
// Programs that use this package load libraries of the system: on Linux they are linked
// with the C library. Package gomoe reaches it on macOS, and elsewhere with the tag native.
//
// Begin with gomoe.OpenDevice, or here with Open. The package makes no plans: package lowering
// does that, for the target kernels.Metal.
package metal
