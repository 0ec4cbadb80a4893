// Package measure times the kernels for Apple's GPUs, instruction by instruction, against
// the host's, and compares what they compute.
//
// A Case is a program at some model's shapes. Run has the host run the plan that is made
// for the device, and after each instruction that a kernel serves has the device do the
// same, on copies of the same arguments: so the two alternate, and every result is compared
// with the host's within the kernel's tolerance.
package measure
