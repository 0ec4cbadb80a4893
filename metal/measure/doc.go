// Package measure times the kernels for Apple's GPUs, instruction by instruction, against the
// host's, and compares their results.
//
// A Case is a program at the shapes of some model. Run lets the host run the plan made for the
// device. After each instruction served by a kernel, the device does the same on copies of the same
// arguments. So host and device alternate, and every result is compared with the host's within the
// kernel's tolerance.
package measure
