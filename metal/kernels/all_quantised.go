package kernels

// quantised returns the kernels of products with weights in blocks, or with scales.
func quantised() []Kernel {
	return []Kernel{groupedBlocks(), dotBlocks(), scaledMatmul(), affineMatmul()}
}
