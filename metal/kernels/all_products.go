package kernels

// products returns the kernels of matrix products, including those of experts'
// rows.
func products() []Kernel {
	return []Kernel{dotGeneral(), groupedMatmul(), groupedSwiGLU(), groupedOuter()}
}
