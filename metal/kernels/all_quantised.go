package kernels

// quantised returns the kernels of products with weights in blocks.
func quantised() []Kernel { return []Kernel{groupedBlocks(), dotBlocks()} }
