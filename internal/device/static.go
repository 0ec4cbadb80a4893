//go:build !darwin && !native

package device

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// Open returns an error: a program loading Metal, or its stand-in, must be linked with
// the system's C library, and this program is not.
func Open(_ context.Context, name string) (Device, error) {
	if name == Emulated || name == Counting || name == CountingTensors {
		return nil, missing("device metal-emulated loads libraries of the system, and this program is linked statically: build it with -tags native")
	}
	return nil, missing(fmt.Sprintf("metal: no GPU on %s/%s, only macOS has Metal; -device metal-emulated runs the same kernels on the processor", runtime.GOOS, runtime.GOARCH))
}

// missing is the error of an operation that this program does not support. It wraps
// errors.ErrUnsupported.
type missing string

func (m missing) Error() string { return string(m) }
func (m missing) Unwrap() error { return errors.ErrUnsupported }
