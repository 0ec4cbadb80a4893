//go:build !amd64 && !arm64

package blocks

import "github.com/gomoe/gomoe/internal/kernel"

// setOf returns nil: other architectures have the portable kernels only.
func setOf(kernel.Kind) *set { return nil }
