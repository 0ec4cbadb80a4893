package norm

import "github.com/gomoe/gomoe/internal/kernel"

// lineLoopsFor has none of the loops that need exponentials in float64, nor SoftmaxGrad
// but for its sums: these are done in Go on arm64.
func lineLoopsFor(k kernel.Kind) *lineLoops {
	if k != kernel.NEON {
		return nil
	}
	return &lineLoops{less: neonLess}
}
