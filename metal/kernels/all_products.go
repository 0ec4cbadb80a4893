package kernels

// products returns the kernels of matrix products, including products with experts' rows.
func products() []Kernel {
	return []Kernel{dotGeneral(), groupedMatmul(), groupedSwiGLU(), groupedOuter()}
}
