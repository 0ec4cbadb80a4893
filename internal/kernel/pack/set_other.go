//go:build !amd64 && !arm64

package pack

import "github.com/gomoe/gomoe/internal/kernel"

// Of returns nil: other architectures have the portable kernels only.
func Of(kernel.Kind, int) *Set { return nil }
