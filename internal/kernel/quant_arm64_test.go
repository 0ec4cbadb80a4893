package kernel

// quantSets returns the kernels here, and on a processor with FEAT_DotProd those
// that others have.
func quantSets() []kernels {
	return append(available(), kernels{name: "neon without dot products", quant: neonPlainQuant()})
}
