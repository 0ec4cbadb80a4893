// Package world sets up the job of a process: all its ranks in this process, or one of
// several processes started by a launcher and connected by one of the transports.
//
// Begin with World.Setup, and give the World to gomoe.Config. A program running in one
// process only does not need a World. The package does not start processes; gomoe launch
// does.
//
// world.go and collectives.go have the methods that programs call, config.go the
// configuration, setup.go the choice of processes, process.go the meeting of several
// processes, transport.go the table of transports, native.go the transports that load a
// library of the system, misfit.go the exit statuses and the fit of a mesh, and flight.go the
// record of a job that fails.
package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/internal/openfiles"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/job/meet"
	"github.com/gomoe/gomoe/sharding"
)

// World is the job of this process: all its ranks in this process, or one of several
// processes with a rank each. The zero World is not set up. Only Setup connects it;
// tracing, compiling and the first step do not. A nil World is a job of this process
// alone.
//
// Its methods may be called by several goroutines, but collectives run one at a time: the
// collectives of Group and Warmup, and the steps of all jobs opened with this World.
type World struct {
	mu     sync.Mutex
	state  *state    // nil if the World is not set up
	mpi    io.Closer // nil if MPI is not in use; a process can open MPI only once
	closed bool
	// meetings outlives a Reset: a rank calling Setup again early must not join the
	// meeting that the other ranks have yet to leave.
	meetings meet.Meetings
}

// Info describes a World that is set up.
type Info struct {
	Mode      Mode   // InProcess or PerProcess
	Transport string // the transport in use: local, tcp, shm and others
	// Rank is this process's rank, 0 to Size-1; 0 if all ranks are in this process.
	Rank, Size int
	// Local lists the ranks in this process.
	Local []int
	// Source has the environment variables that determined the World, as NAME=value.
	Source []string
}

// First reports whether this process prints and writes files for the job.
func (i Info) First() bool { return i.Rank == 0 }

func (i Info) String() string {
	if i.Mode == InProcess && i.Size == 1 {
		return "one rank in this process"
	}
	if i.Mode == InProcess {
		return fmt.Sprintf("%d ranks in this process", i.Size)
	}
	return fmt.Sprintf("rank %d of %d processes over %s", i.Rank, i.Size, i.Transport)
}

var errNotSetUp = errors.New("gomoe: the World is not set up; call Setup first")

// Setup sets the World up according to cfg. In a job of several processes all of them
// must call it, and it blocks until all have, up to cfg.Deadline.
//
// A second call with an equal cfg does nothing. A second call with another cfg is an
// error; call Reset before it. After an error nothing is set up, and all resources of the
// attempt are released.
func (w *World) Setup(ctx context.Context, cfg Config) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return errors.New("gomoe: the World is closed; make another one")
	case w.state != nil && w.state.cfg.equal(cfg):
		return nil
	case w.state != nil:
		return fmt.Errorf("gomoe: the World is set up as %s, and Setup is called with %s; call Reset first, or make another World", w.state.cfg, cfg)
	}
	s, err := setUp(ctx, cfg, &w.meetings, &w.mpi)
	if err != nil {
		return openfiles.Explain(err)
	}
	w.state = s
	return nil
}

// Reset releases the resources of Setup. Jobs and groups of the World can then only be
// closed. Setup may be called again, with any configuration. In a job of several
// processes, all of them must call Reset. On a World that is not set up, Reset does
// nothing.
func (w *World) Reset() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reset()
}

func (w *World) reset() error {
	s := w.state
	w.state = nil
	if s == nil {
		return nil
	}
	return s.close()
}

// Close is Reset, and makes later calls of Setup fail. It may be called twice.
func (w *World) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	err := w.reset()
	if w.mpi != nil {
		err = errors.Join(err, w.mpi.Close())
		w.mpi = nil
	}
	return err
}

// ready returns the state of a World that is set up, else an error.
func (w *World) ready() (*state, error) {
	if w == nil {
		return &state{info: Info{Mode: InProcess, Size: 1}}, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == nil {
		return nil, errNotSetUp
	}
	return w.state, nil
}

// Info describes the World. Before Setup it returns an error.
func (w *World) Info() (Info, error) {
	s, err := w.ready()
	if err != nil {
		return Info{}, err
	}
	i := s.info
	i.Local, i.Source = slices.Clone(i.Local), slices.Clone(i.Source)
	return i, nil
}

// Group returns one group for each rank of this process, in the order of Info.Local: the
// ranks of the mesh with coordinates differing from that rank's in the given axes only.
// Group(mesh, "ep") returns the expert-parallel groups, whatever the position of the axis
// in the mesh. Without axes each group is the rank alone. Group does not block.
func (w *World) Group(mesh sharding.Mesh, axes ...string) ([]jaccl.Group, error) {
	s, err := w.ready()
	if err != nil {
		return nil, err
	}
	if err := s.fits(mesh); err != nil {
		return nil, err
	}
	for _, a := range axes {
		if mesh.Size(a) == 0 {
			return nil, fmt.Errorf("gomoe: group over %v: the mesh %q has no axis %s", axes, mesh, a)
		}
	}
	out := make([]jaccl.Group, len(s.comms))
	for i, c := range s.comms {
		if out[i], err = c.Among(mesh.Group(c.Rank(), axes)); err != nil {
			return nil, fmt.Errorf("gomoe: group over %v: %w", axes, err)
		}
	}
	return out, nil
}

// Communicators returns the communicators of this process's ranks, in the order of
// Info.Local, for a program's own collectives. The World owns and closes them.
func (w *World) Communicators() ([]jaccl.Communicator, error) {
	s, err := w.ready()
	if err != nil {
		return nil, err
	}
	return slices.Clone(s.comms), nil
}

// Interrupted tells the other processes of the job, if ctx has ended, that this one was
// asked to end: the collectives that they wait in or call later return an error naming
// this process's rank and the cause. It is for a process leaving between collectives. If
// there is no other process, it does nothing.
func (w *World) Interrupted(ctx context.Context) {
	if ctx.Err() == nil {
		return
	}
	if s, err := w.ready(); err == nil && s.info.Mode == PerProcess {
		s.comms[0].Fail(fmt.Errorf("it was asked to end: %w", context.Cause(ctx)))
	}
}

// Ranks returns the communicators of this process's ranks for a job on the mesh. A
// deadline of 0 means the World's, or package jaccl's default. own reports that the job
// owns the communicators and closes them. With a nil World all ranks are in this process.
func (w *World) Ranks(mesh sharding.Mesh, deadline time.Duration) (comms []collective.Communicator, own bool, err error) {
	opts := jaccl.Options{Deadline: deadline}
	if w != nil {
		s, err := w.ready()
		if err != nil {
			return nil, false, err
		}
		if err := s.fits(mesh); err != nil {
			return nil, false, err
		}
		if s.info.Mode == PerProcess {
			if deadline != 0 && deadline != s.deadline {
				return nil, false, fmt.Errorf("gomoe: deadline %v of a job in a World whose deadline is %v; set world.Config.Deadline", deadline, s.deadline)
			}
			for _, c := range s.comms {
				comms = append(comms, c)
			}
			return comms, false, nil
		}
		if opts.Deadline == 0 {
			opts.Deadline = s.deadline
		}
	}
	local, err := engine.Local(mesh.Ranks(), opts)
	if err != nil {
		return nil, false, err
	}
	for _, c := range local {
		comms = append(comms, c)
	}
	return comms, true, nil
}
