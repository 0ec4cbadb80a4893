package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/job/meet"
	"github.com/gomoe/gomoe/sharding"
)

// state is the state of a World that is set up.
type state struct {
	cfg      Config
	deadline time.Duration // time limit for waiting for other ranks
	info     Info
	comms    []jaccl.Communicator // of the local ranks
	mesh     *sharding.Mesh       // the mesh of all jobs; nil if any mesh is allowed
	machines machines             // empty if no site knows the machines
	flight   *recording           // of a job of several processes
	also     []func() error       // further resources to release, the last one first

	// These belong to the World and outlive the state.
	meetings *meet.Meetings
	mpi      *io.Closer // nil until it is opened
}

// setUp does the work of Setup, for a World that is not set up.
func setUp(ctx context.Context, cfg Config, meetings *meet.Meetings, w *io.Closer) (*state, error) {
	if err := known(fmt.Sprintf("transport %s", quoted.Text(cfg.Transport)), cfg.Transport); err != nil {
		return nil, err
	}
	if cfg.Mode < Auto || cfg.Mode > PerProcess {
		return nil, fmt.Errorf("gomoe: mode %v, want Auto, InProcess or PerProcess", cfg.Mode)
	}
	job, err := environ.Detect(cfg.getenv())
	if err != nil {
		return nil, fmt.Errorf("gomoe: %w", err)
	}
	if err := known("GOMOE_TRANSPORT="+job.Transport, job.Transport); err != nil {
		return nil, err
	}
	s := &state{cfg: cfg, mesh: cfg.Mesh, meetings: meetings, mpi: w}
	if s.deadline, err = (jaccl.Options{Deadline: cmp.Or(cfg.Deadline, job.Deadline)}).Wait(); err != nil {
		return nil, fmt.Errorf("gomoe: %w", err)
	}
	s.info.Source = job.Source
	s.info.Transport = cmp.Or(cfg.Transport, job.Transport, "auto")
	if err := s.mode(job); err != nil {
		return nil, err
	}
	if s.info.Mode == InProcess {
		err = s.inProcess()
	} else {
		err = s.perProcess(ctx, job)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// known returns an error if name is neither empty nor a transport. what names its source.
func known(what, name string) error {
	if name != "" && TransportOf(name).Name == "" {
		return fmt.Errorf("gomoe: %s, want one of %s", what, TransportNames())
	}
	return nil
}

// mode decides on the processes of the ranks.
func (s *state) mode(job environ.Job) error {
	s.info.Mode = s.cfg.Mode
	said := fmt.Sprintf("%s says %d processes", strings.Join(job.Source, " "), job.Size)
	switch {
	case s.cfg.Mode == Auto && job.InProcess():
		s.info.Mode = InProcess
	case s.cfg.Mode == Auto:
		s.info.Mode = PerProcess
	case s.cfg.Mode == InProcess && job.Size > 1:
		return fmt.Errorf("gomoe: in-process was asked for, and the environment describes a job (%s); every process would run all ranks", said)
	case s.cfg.Mode == PerProcess && job.InProcess():
		return errors.New("gomoe: per-process was asked for, and the environment describes no job; start the processes with gomoe launch -n, mpirun, torchrun or mlx.launch")
	}
	if s.info.Mode == PerProcess && s.mesh != nil && s.mesh.Ranks() != job.Size {
		return &MisfitError{fmt.Errorf("gomoe: %s, and %s; start %s, or take a mesh of %d ranks", ranksOf(*s.mesh), said, processes(s.mesh.Ranks()), job.Size)}
	}
	return nil
}

// inProcess sets up a World of this process.
func (s *state) inProcess() error {
	if t := s.info.Transport; t != "auto" && t != "local" {
		return fmt.Errorf("gomoe: transport %s was asked for, and all ranks are in this process; start one process per rank, as with gomoe launch -n", t)
	}
	s.info.Transport, s.info.Size = "local", 1
	if s.mesh != nil {
		s.info.Size = s.mesh.Ranks()
	}
	comms, err := engine.Local(s.info.Size, jaccl.Options{Deadline: s.deadline})
	if err != nil {
		return fmt.Errorf("gomoe: %w", err)
	}
	s.comms = comms
	for i := range comms {
		s.info.Local = append(s.info.Local, i)
	}
	return nil
}

// ranksOf describes the number of ranks of a mesh.
func ranksOf(m sharding.Mesh) string {
	if len(m.Axes) == 0 {
		return "no mesh is given, which is one rank"
	}
	return fmt.Sprintf("the mesh %q has %d ranks", m, m.Ranks())
}

func processes(n int) string {
	if n == 1 {
		return "one process"
	}
	return fmt.Sprintf("%d processes", n)
}

// fits returns an error if the mesh does not have as many ranks as the World.
func (s *state) fits(m sharding.Mesh) error {
	switch {
	case s.mesh != nil && !m.InBlocks(s.mesh.Blocks).Equal(*s.mesh):
		return fmt.Errorf("gomoe: mesh %q of a job in a World that was set up for the mesh %q; set up the World without a mesh for jobs on several, or call Reset, and Setup with the other mesh", m, s.mesh)
	case s.info.Mode == PerProcess && m.Ranks() != s.info.Size:
		return fmt.Errorf("gomoe: %s, and the World has %d processes (%s)", ranksOf(m), s.info.Size, strings.Join(s.info.Source, " "))
	}
	return s.machines.fit(m)
}

// close releases everything, in reverse order.
func (s *state) close() error {
	var errs []error
	for _, c := range s.comms {
		errs = append(errs, c.Close())
	}
	for _, f := range slices.Backward(s.also) {
		errs = append(errs, f())
	}
	s.comms, s.also = nil, nil
	return errors.Join(errs...)
}

// all runs f for every rank of this process concurrently, and returns the first error.
func (s *state) all(f func(c jaccl.Communicator) error) error {
	errs := make([]error, len(s.comms))
	var wg sync.WaitGroup
	for i, c := range s.comms {
		wg.Go(func() {
			if errs[i] = f(c); errs[i] != nil {
				c.Fail(errs[i])
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// version returns the version of gomoe in this program: the release, or the revision if
// it was built from a checkout.
func version() string {
	const path = "github.com/gomoe/gomoe"
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, d := range b.Deps {
		if d.Path != path {
			continue
		}
		if d.Replace != nil {
			d = d.Replace
		}
		return d.Version + " " + d.Sum
	}
	v := b.Main.Version
	for _, s := range b.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.modified" && s.Value == "true" {
			v += " " + s.Key + "=" + s.Value
		}
	}
	return v
}
