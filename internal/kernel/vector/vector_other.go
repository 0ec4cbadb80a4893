//go:build !amd64 && !arm64

package vector

import "github.com/gomoe/gomoe/internal/kernel"

// has says whether v has the loop in vectors.
func has(kernel.Kind, loop) bool { return false }

// run is never reached: other architectures have the scalar loops only.
func run(kernel.Kind, loop, *vectorArgs) { panic("vector: no vector loops on this architecture") }
