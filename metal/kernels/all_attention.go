package kernels

// attention returns the kernels of attention.
func attention() []Kernel { return []Kernel{attentionKernel(), attentionGradKernel()} }
