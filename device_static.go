//go:build !darwin && !native

package gomoe

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// openDevice says why there is none: a program that loads Metal, or what stands in for it,
// is linked with the system's C library, and this one is not.
func openDevice(_ context.Context, name string) (Device, error) {
	if name == emulatedName {
		return nil, fmt.Errorf("device metal-emulated loads libraries of the system, and this program is linked statically: build it with -tags native: %w", errors.ErrUnsupported)
	}
	return nil, fmt.Errorf("metal: no GPU on %s/%s, only macOS has Metal; -device metal-emulated runs the same kernels on the processor: %w", runtime.GOOS, runtime.GOARCH, errors.ErrUnsupported)
}
