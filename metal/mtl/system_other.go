//go:build !darwin

package mtl

import (
	"fmt"
	"runtime"
)

// System returns an error that wraps ErrNoMetal: only macOS has Metal.
func System() (*Runtime, error) {
	return nil, fmt.Errorf("%w: this is %s, want macOS", ErrNoMetal, runtime.GOOS)
}
