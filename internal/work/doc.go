// Package work distributes the work of host kernels over threads, and moves boxes of elements between
// arrays.
package work
