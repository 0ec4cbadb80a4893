//go:build !(linux || darwin)

package rdma

import (
	"errors"
	"runtime"
)

var errSystem = errors.New("rdma: " + runtime.GOOS + "/" + runtime.GOARCH + " has no RDMA verbs that are known here, want macOS or Linux on arm64 or amd64")

func mapMemory(n int) ([]byte, error) { return nil, errSystem }
func unmapMemory(b []byte)            {}
