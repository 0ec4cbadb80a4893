//go:build !linux && !darwin

package shm

import (
	"context"
	"fmt"
	"runtime"

	"github.com/gomoe/gomoe/jaccl/link"
)

// Connect returns an error: shared memory is for Linux and darwin.
func Connect(ctx context.Context, site link.Site, o Options) (link.Link, error) {
	return nil, fmt.Errorf("shm: connect: no shared memory between processes on %s, want linux or darwin; use the tcp link", runtime.GOOS)
}
