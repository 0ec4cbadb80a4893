// Package array holds dense row-major arrays in host memory: what a program
// takes and returns, and what kernels read and write.
//
// Begin with Of and New, and with Data, which gives an array's elements as a Go slice.
// ReadFile and WriteFile know NumPy's .npy files. The only arithmetic here is the
// conversion of element types; programs do the rest.
package array
