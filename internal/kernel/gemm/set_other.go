//go:build !amd64 && !arm64

package gemm

import "github.com/gomoe/gomoe/internal/kernel"

// kernelsOf returns the portable kernels: other architectures have no others.
func kernelsOf(k kernel.Kind) kernels { return kernels{name: k.String()} }
