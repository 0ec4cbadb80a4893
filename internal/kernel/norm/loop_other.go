//go:build !amd64 && !arm64

package norm

import "github.com/gomoe/gomoe/internal/kernel"

// runNorm is never reached: other architectures have the loops in Go only.
func runNorm(kernel.Kind, normLoop, *normArgs) {
	panic("norm: no vector loops on this architecture")
}
