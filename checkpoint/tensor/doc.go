// Package tensor provides the parts common to all formats of weight files: memory-mapped files, the named tensors
// in them, and the sources for writing a file.
//
// Begin with checkpoint.Open, which returns tensors of any format.
package tensor
