//go:build !darwin && !native

package world

import (
	"context"
	"fmt"
	"time"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/link"
)

// notNative is why a transport that loads a library of the system is not there. A
// program that can load one is linked with the system's C library, and runs on no
// other; without, it is one static file.
func notNative(transport string) error {
	return fmt.Errorf("transport %s loads a library of the system, and this program is linked statically: build it with -tags native: %w", transport, jaccl.ErrUnsupported)
}

func overVerbs(context.Context, link.Site, hostfile.Devices, string) (link.Link, error) {
	return nil, notNative("jaccl")
}

func openMPI(time.Duration, func(string) string) (mpiSite, error) { return nil, notNative("mpi") }

func linkMPI(context.Context, mpiSite) (link.Link, error) { return nil, notNative("mpi") }
