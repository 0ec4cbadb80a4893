//go:build !amd64 && !arm64

package norm

import "github.com/gomoe/gomoe/internal/kernel"

func lineLoopsFor(kernel.Kind) *lineLoops { return nil }
