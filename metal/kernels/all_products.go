package kernels

// products is matrix products, of experts' rows too.
func products() []Kernel {
	return []Kernel{dotGeneral(), groupedMatmul(), groupedOuter()}
}
