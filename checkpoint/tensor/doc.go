// Package tensor has what files of weights have in common, whatever their format: a file
// that lies in memory as it lies on the disk, the named tensors in it, and the sources that
// a file is written from.
//
// Begin with checkpoint.Open, which returns tensors of any format.
package tensor
