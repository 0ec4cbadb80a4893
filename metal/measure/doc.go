// Package measure times the kernels for Apple's GPUs, instruction by instruction, against
// the host's, and compares what they compute.
//
// A Case is a program at the shapes of some model. Run lets the host run the plan that was
// made for the device. After each instruction that a kernel serves, the device does the
// same on copies of the same arguments. So host and device alternate, and every result is
// compared with the host's within the kernel's tolerance.
package measure
