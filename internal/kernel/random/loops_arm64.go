package random

import "github.com/gomoe/gomoe/internal/kernel"

// loopsFor returns the loops of NEON. It has none for normal numbers: their inverse error
// function needs polynomials in float64, which NEON's loops do not have.
func loopsFor(k kernel.Kind) *loops {
	if k != kernel.NEON {
		return nil
	}
	return &loops{threefry: neonThreefry, uniform: neonUniform}
}
