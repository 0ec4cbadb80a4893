//go:build !((linux || darwin) && (amd64 || arm64))

package mtl

import (
	"fmt"
	"runtime"
)

func unsupported() error {
	return fmt.Errorf("%w: %s/%s, want macOS on arm64 or amd64", ErrNoMetal, runtime.GOOS, runtime.GOARCH)
}

func load(path string) (uintptr, error)                    { return 0, unsupported() }
func symbol(library uintptr, name string) (uintptr, error) { return 0, unsupported() }

func call(fn uintptr, args []uintptr) (r1, r2 uintptr) {
	panic(unsupported()) // there is no Runtime whose function fn could be
}

func doubles(send uintptr) func(self, selector uintptr) float64 { panic(unsupported()) }
