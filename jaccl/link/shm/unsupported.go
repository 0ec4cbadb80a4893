//go:build !linux && !darwin

package shm

import (
	"context"
	"fmt"
	"runtime"

	"github.com/gomoe/gomoe/jaccl"
)

// Connect returns an error: shared memory is for Linux and darwin.
func Connect(ctx context.Context, site jaccl.Site, o Options) (jaccl.Link, error) {
	return nil, fmt.Errorf("shm: connect: no shared memory between processes on %s, want linux or darwin; use the tcp link", runtime.GOOS)
}
