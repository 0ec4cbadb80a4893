package norm

import "github.com/gomoe/gomoe/internal/kernel"

// lineLoopsFor returns the loops of NEON, which has only Difference. The others run in Go
// on arm64; SoftmaxGrad's sums are still vector.Dot's, which NEON has.
func lineLoopsFor(k kernel.Kind) *lineLoops {
	if k != kernel.NEON {
		return nil
	}
	return &lineLoops{less: neonLess}
}
