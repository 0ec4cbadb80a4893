package kernels

// rows returns the kernels that work on rows: norms, softmax, positions,
// losses.
func rows() []Kernel {
	return []Kernel{softmax(), logSoftmax(), rmsNorm(), layerNorm(), rope(), crossEntropy()}
}
