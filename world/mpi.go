//go:build darwin || native

package world

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/link/mpi"
)

// overMPI connects the ranks by MPI, which must have launched them.
func overMPI(s *state, ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
	c, err := s.joinMPI(ctx, job)
	return s.orTCP(ctx, job, c, err)
}

// joinMPI opens MPI. A process can do that only once, so the World keeps it until Close.
func (s *state) joinMPI(ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
	w, ok := (*s.mpi).(*mpi.World)
	if !ok {
		var err error
		if w, err = mpi.Open(mpi.Options{Deadline: s.deadline, Getenv: s.cfg.Getenv}); err != nil {
			return nil, err
		}
		*s.mpi = w
	}
	if w.Rank() != job.Rank || w.Size() != job.Size {
		return nil, fmt.Errorf("mpi says rank %d of %d, and the environment rank %d of %d (%v); start the processes with mpirun or mpiexec", w.Rank(), w.Size(), job.Rank, job.Size, job.Source)
	}
	if err := s.compareFacts(ctx, w); err != nil {
		return nil, err
	}
	link, err := mpi.Connect(ctx, w)
	if err != nil {
		return nil, err
	}
	return s.communicator(ctx, w, link)
}
