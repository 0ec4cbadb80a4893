package kernels

// attention is attention.
func attention() []Kernel { return []Kernel{causalAttention(), causalAttentionGrad()} }
