package kernels

// rows is what is done to rows: norms, softmax, positions, losses.
func rows() []Kernel {
	return []Kernel{softmax(), logSoftmax(), rmsNorm(), layerNorm(), rope(), crossEntropy()}
}
