//go:build !((linux || darwin) && (amd64 || arm64))

package rdma

import (
	"errors"
	"runtime"
)

var errSystem = errors.New("rdma: " + runtime.GOOS + "/" + runtime.GOARCH + " has no RDMA verbs that are known here, want macOS or Linux on arm64 or amd64")

func mapMemory(n int) ([]byte, error)                     { return nil, errSystem }
func unmapMemory(b []byte)                                {}
func load(name string) (uintptr, error)                   { return 0, errSystem }
func symbol(handle uintptr, name string) (uintptr, error) { return 0, errSystem }
func yielder() uintptr                                    { return 0 }
func errnoOf() (uintptr, error)                           { return 0, errSystem }
func invoke(fn uintptr, args ...uintptr) uintptr {
	panic(errSystem) // no library has been loaded whose function fn could be
}
