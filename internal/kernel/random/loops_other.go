//go:build !amd64 && !arm64

package random

import "github.com/gomoe/gomoe/internal/kernel"

func loopsFor(kernel.Kind) *loops { return nil }
