package kernels

// quantised is products with weights in blocks.
func quantised() []Kernel { return []Kernel{groupedBlocks(), dotBlocks()} }
