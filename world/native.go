//go:build darwin || native

package world

import (
	"context"
	"fmt"
	"time"

	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/link/mpi"
	"github.com/gomoe/gomoe/jaccl/link/verbs"
	"github.com/gomoe/gomoe/jaccl/rdma"
)

// overVerbs connects ranks by RDMA devices, through the library of that path, or the
// system's.
func overVerbs(ctx context.Context, site link.Site, devices hostfile.Devices, library string) (link.Link, error) {
	return verbs.Connect(ctx, site, devices, rdma.Settings{Library: library})
}

// openMPI begins this process's part of what mpirun has started.
func openMPI(deadline time.Duration, getenv func(string) string) (mpiSite, error) {
	w, err := mpi.Open(mpi.Options{Deadline: deadline, Getenv: getenv})
	if err != nil {
		return nil, err // and no mpiSite that is not nil
	}
	return w, nil
}

// linkMPI connects the ranks of openMPI.
func linkMPI(ctx context.Context, s mpiSite) (link.Link, error) {
	w, ok := s.(*mpi.World)
	if !ok {
		return nil, fmt.Errorf("mpi: a site of type %T, want MPI's", s)
	}
	return mpi.Connect(ctx, w)
}
