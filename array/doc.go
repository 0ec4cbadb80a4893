// Package array holds dense row-major arrays in host memory: what a program
// takes and returns, and what kernels read and write.
package array
