package random

import "github.com/gomoe/gomoe/internal/kernel"

// loopsFor has no loop for normal numbers on arm64: their inverse error function needs
// polynomials in float64.
func loopsFor(k kernel.Kind) *loops {
	if k != kernel.NEON {
		return nil
	}
	return &loops{threefry: neonThreefry, uniform: neonUniform}
}
