package blocks

// sets returns the functions here, and on a processor with FEAT_DotProd those that
// others have.
func sets() []namedSet {
	return append(available(), namedSet{"neon without dot products", neonPlainSet()})
}
