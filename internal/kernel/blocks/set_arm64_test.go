package blocks

// sets returns the functions that this processor uses, and those that a processor without
// FEAT_DotProd uses.
func sets() []namedSet {
	return append(available(), namedSet{"neon without dot products", neonPlainSet()})
}
