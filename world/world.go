// Package world sets up the job that a process belongs to: all its ranks in this
// process, or one of several processes that a launcher has started, connected by one of
// the transports.
//
// Begin with World.Setup, and give the World to gomoe.Config. A program that is to run in one
// process only needs none.
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
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/job/meet"
	"github.com/gomoe/gomoe/sharding"
)

// World is the job that this process belongs to: all its ranks in this process, or
// one of several processes with a rank each. The zero World is one that is not set
// up. Setup decides what it is, once; nothing else does, neither tracing nor
// compiling nor the first step.
//
// Its methods may be called by several goroutines, but collectives run one at a
// time: those of Group and Warmup, and the steps of all jobs that Open opens with
// this World.
type World struct {
	mu     sync.Mutex
	state  *state    // nil if it is not set up
	mpi    io.Closer // nil if it is not in use; a process opens one in its life
	closed bool
	// meetings are those of all set-ups: a rank that is quick after a Reset must not meet
	// what the others have yet to close.
	meetings meet.Meetings
}

// Info is what a World turned out to be.
type Info struct {
	Mode      Mode   // InProcess or PerProcess
	Transport string // what carries data: local, tcp, shm and others
	// Rank is this process's, 0 to Size-1. In process, it is 0 of Size ranks, but in
	// a World that fell back (see Config.Fallback) the process's rank of its job.
	Rank, Size int
	// Local are the ranks that live in this process.
	Local []int
	// Source are the environment's variables that decided, as NAME=value.
	Source []string
	// Fallbacks are what was asked for and is not so, with the reason.
	Fallbacks []string
}

// First reports whether this process is the one that prints and writes files for
// the job.
func (i Info) First() bool { return i.Rank == 0 }

func (i Info) String() string {
	if i.Mode == InProcess {
		return fmt.Sprintf("%d ranks in this process", i.Size)
	}
	return fmt.Sprintf("rank %d of %d processes over %s", i.Rank, i.Size, i.Transport)
}

var errNotSetUp = errors.New("gomoe: the World is not set up; call Setup first")

// Setup makes the World what cfg says. In a job of several processes all of them
// call it, and it blocks until all have, up to cfg.Deadline.
//
// Called again with an equal cfg, it does nothing. With another one it is an error;
// call Reset before that. After an error nothing is set up, and nothing is left of
// the attempt.
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
		return err
	}
	w.state = s
	return nil
}

// Reset releases all that Setup has made. Jobs and groups of the World are of no
// use then, but to be closed; Setup may be called again, with any configuration. In
// a job of several processes, all of them do that. A World that is not set up is
// left alone.
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

// Close is Reset, after which Setup is an error. It may be called twice.
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

// ready returns what was set up.
func (w *World) ready() (*state, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == nil {
		return nil, errNotSetUp
	}
	return w.state, nil
}

// Info returns what the World is. Before Setup it is an error.
func (w *World) Info() (Info, error) {
	s, err := w.ready()
	if err != nil {
		return Info{}, err
	}
	i := s.info
	i.Local, i.Source, i.Fallbacks = slices.Clone(i.Local), slices.Clone(i.Source), slices.Clone(i.Fallbacks)
	return i, nil
}

// Group returns, for each rank of this process in the order of Info.Local, the
// group of the ranks of the mesh whose coordinates differ from its own in axes only:
// an expert-parallel group is Group(mesh, "ep"), wherever the axis stands in the mesh.
// It does not block. Without axes it is the rank alone.
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

// Communicators returns those of the ranks of this process, in the order of
// Info.Local, for collectives of a program's own. They are the World's, which
// closes them.
func (w *World) Communicators() ([]jaccl.Communicator, error) {
	s, err := w.ready()
	if err != nil {
		return nil, err
	}
	return slices.Clone(s.comms), nil
}

// Ranks returns the communicators of this process's ranks for a job on the mesh, whose
// deadline is that of the World, or of package jaccl, if it is 0. own says that they are
// the job's, which closes them. A nil World is all ranks in this process.
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
			if deadline != 0 && deadline != s.cfg.Deadline {
				return nil, false, fmt.Errorf("gomoe: deadline %v of a job in a World whose deadline is %v; set world.Config.Deadline", deadline, s.cfg.Deadline)
			}
			for _, c := range s.comms {
				comms = append(comms, c)
			}
			return comms, false, nil
		}
		if opts.Deadline == 0 {
			opts.Deadline = s.cfg.Deadline
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
