//go:build !((linux || darwin) && (amd64 || arm64))

package mpi

import (
	"fmt"
	"runtime"

	"github.com/gomoe/gomoe/jaccl"
)

func load(name string) (uintptr, error) {
	return 0, fmt.Errorf("no libraries are bound on %s/%s: %w", runtime.GOOS, runtime.GOARCH, jaccl.ErrUnsupported)
}

func unload(uintptr) {}

func find(_ uintptr, name string) (uintptr, error) { return load(name) }

func findC(name string) (uintptr, error) { return load(name) }

//go:uintptrescapes
func call(uintptr, ...uintptr) int32 { return -1 }
