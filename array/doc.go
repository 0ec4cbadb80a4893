// Package array holds dense row-major arrays in host memory: the inputs and results of
// programs and kernels.
//
// Begin with Of and New, and with Data, which returns an array's elements as a Go slice.
// ReadFile and WriteFile use NumPy's .npy format. The only arithmetic here is the
// conversion of element types; programs do the rest.
package array
