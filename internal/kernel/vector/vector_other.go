//go:build !amd64 && !arm64

package vector

import "github.com/gomoe/gomoe/internal/kernel"

// has returns false: other architectures have no loops over vectors.
func has(kernel.Kind, loop) bool { return false }

// run is never reached: other architectures have the loops in Go only.
func run(kernel.Kind, loop, *vectorArgs) { panic("vector: no vector loops on this architecture") }
