package kernels

// rows returns the kernels working on rows: norms, softmax, positions, losses.
func rows() []Kernel {
	return []Kernel{softmax(), logSoftmax(), rmsNorm(), layerNorm(), rope(), crossEntropy()}
}
