//go:build !amd64 && !arm64

package vector

import "github.com/gomoe/gomoe/internal/kernel"

func mathOf(kernel.Kind) *mathLoops { return nil }
