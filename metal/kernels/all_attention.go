package kernels

// attention returns the kernels of attention and its caches.
func attention() []Kernel { return []Kernel{attentionKernel(), attentionGradKernel(), cacheUpdate()} }
