//go:build darwin || native

package world

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/link/mpi"
	"github.com/gomoe/gomoe/jaccl/link/verbs"
	"github.com/gomoe/gomoe/jaccl/mlx/mesh"
	"github.com/gomoe/gomoe/jaccl/rdma"
)

// native returns the connector of a transport loading a system library.
func native(name string) connector {
	return map[string]connector{"verbs": overVerbs, "mpi": overMPI, "jaccl": overMesh}[name]
}

// overVerbs connects ranks by RDMA devices.
func overVerbs(s *state, ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
	return s.overPlace(ctx, job, func(ctx context.Context, site link.Site) (link.Link, error) {
		devices, err := agreedDevices(ctx, site, job)
		if err != nil {
			return nil, err
		}
		return verbs.Connect(ctx, site, devices, rdma.Settings{Library: job.Verbs, Whole: job.Whole})
	})
}

// agreedDevices reads the RDMA devices connecting the ranks. If one rank cannot, all
// ranks get an error, so that none waits for it.
func agreedDevices(ctx context.Context, site link.Site, job environ.Job) (hostfile.Devices, error) {
	devices, err := job.ReadDevices()
	missing := ""
	if err != nil {
		missing = err.Error()
	}
	all, gone := site.Gather(ctx, "gomoe: devices", []byte(missing[:min(len(missing), 1000)]))
	if err != nil || gone != nil {
		return nil, errors.Join(err, gone)
	}
	for r, b := range all {
		if len(b) > 0 {
			return nil, fmt.Errorf("rank %d (%s) knows no devices", r, site.Host(r))
		}
	}
	return devices, nil
}

// overMesh connects the ranks by MLX's JACCL. If MLX's variables name the devices, other
// ranks may be processes of MLX; otherwise the ranks first meet.
func overMesh(s *state, ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
	o := mesh.Options{Settings: rdma.Settings{Library: job.Verbs}, Rank: job.Rank, Coordinator: job.Coordinator, Deadline: s.deadline}
	if job.Devices != "" {
		var err error
		if o.Devices, err = job.ReadDevices(); err != nil {
			return nil, err
		}
		return mesh.Connect(ctx, o)
	}
	return s.met(ctx, job, func(place link.Site) (jaccl.Communicator, error) {
		var err error
		if o.Devices, err = agreedDevices(ctx, place, job); err != nil {
			return nil, err
		}
		if o.Conns, err = place.Dial(ctx, "gomoe: JACCL's side channel"); err != nil {
			return nil, err
		}
		return mesh.Connect(ctx, o)
	})
}

// overMPI connects the ranks by MPI, which must have launched them. A process can open MPI
// only once, so the World keeps it until Close.
func overMPI(s *state, ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
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
	l, err := mpi.Connect(ctx, w)
	if err != nil {
		return nil, err
	}
	return s.communicator(ctx, w, l)
}

// compareFacts compares the facts of ranks that did not meet at a Place, which would have
// compared them.
func (s *state) compareFacts(ctx context.Context, site link.Site) error {
	var text string
	for _, f := range s.facts() {
		text += fmt.Sprintf("%s %q ", f.Name, f.Value)
	}
	all, err := site.Gather(ctx, "gomoe: facts", []byte(text))
	if err != nil {
		return err
	}
	for r, b := range all {
		if string(b) != string(all[0]) {
			return fmt.Errorf("rank %d (%s) has %sand rank 0 (%s) %s; start all ranks alike", r, site.Host(r), b, site.Host(0), all[0])
		}
	}
	return nil
}
