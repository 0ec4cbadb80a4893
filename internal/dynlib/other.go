//go:build !((linux || darwin) && (amd64 || arm64))

package dynlib

import (
	"errors"
	"fmt"
	"runtime"
)

func unsupported() error {
	return fmt.Errorf("no libraries are bound on %s/%s, want macOS or Linux on arm64 or amd64: %w", runtime.GOOS, runtime.GOARCH, errors.ErrUnsupported)
}

func Open(string) (Library, error)             { return 0, unsupported() }
func (Library) Close()                         {}
func (Library) Symbol(string) (uintptr, error) { return 0, unsupported() }
func C(string) (uintptr, error)                { return 0, unsupported() }

// Call is never called: no function's address can be obtained.
func Call(uintptr, ...uintptr) (r1, r2 uintptr) { panic(unsupported()) }

func Double(uintptr) func(a, b uintptr) float64 { panic(unsupported()) }
