package world

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/link/shm"
	"github.com/gomoe/gomoe/jaccl/link/tcp"
	"github.com/gomoe/gomoe/jaccl/mlx/ring"
)

// connect connects the ranks with the transport that was asked for, which has one
// place here. After an error nothing is left of it.
func (s *state) connect(ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
	switch t := s.info.Transport; t {
	case "auto":
		return s.overPlace(ctx, job, automatic)
	case "tcp":
		return s.overPlace(ctx, job, tcp.Connect)
	case "shm":
		return s.overPlace(ctx, job, func(ctx context.Context, site link.Site) (link.Link, error) {
			return shm.Connect(ctx, site, shm.Options{})
		})
	case "jaccl":
		return s.overPlace(ctx, job, func(ctx context.Context, site link.Site) (link.Link, error) {
			devices, err := s.devices(job)
			missing := ""
			if err != nil {
				missing = err.Error()
			}
			// What one rank lacks keeps the others from waiting for it.
			all, gone := site.Gather(ctx, "gomoe: devices", []byte(missing[:min(len(missing), 1000)]))
			if err != nil || gone != nil {
				return nil, errors.Join(err, gone)
			}
			for r, b := range all {
				if len(b) > 0 {
					return nil, fmt.Errorf("rank %d (%s) knows no devices", r, site.Host(r))
				}
			}
			return overVerbs(ctx, site, devices, job.Verbs)
		})
	case "mpi":
		c, err := s.overMPI(ctx, job)
		return s.orTCP(ctx, job, c, err)
	case "ring":
		if job.Hostfile == "" && job.Coordinator != "" {
			return s.meetRing(ctx, job)
		}
		nodes, err := s.nodes(job)
		if err != nil {
			return s.orTCP(ctx, job, nil, err)
		}
		c, err := ring.Connect(ctx, nodes, job.Rank, jaccl.Options{Deadline: s.cfg.Deadline})
		return s.orTCP(ctx, job, c, err)
	default:
		return nil, fmt.Errorf("transport %s connects no processes; want auto, tcp, shm, jaccl, mpi or ring", t)
	}
}

// orTCP returns c, or, if that is permitted where c is not to be had, ranks over TCP.
// It is for transports whose ranks do not meet at a place before: all have the same
// libraries and files, or none.
func (s *state) orTCP(ctx context.Context, job environ.Job, c jaccl.Communicator, err error) (jaccl.Communicator, error) {
	if err == nil || !s.cfg.Fallback || ctx.Err() != nil {
		return c, err
	}
	if err := s.instead("tcp", "transport %s is not to be had: %v", s.info.Transport, err); err != nil {
		return nil, err
	}
	return s.overPlace(ctx, job, tcp.Connect)
}

// automatic is shared memory within machines, and TCP between them. All ranks come
// to the same kind of link, and take part in making both where only some share a
// machine: site's Gather and Dial are everybody's.
func automatic(ctx context.Context, site link.Site) (link.Link, error) {
	near := neighbours(site)
	counts, err := site.Gather(ctx, "gomoe: ranks per machine", []byte(fmt.Sprint(len(near))))
	if err != nil {
		return nil, err
	}
	most := "1"
	for _, c := range counts {
		if string(c) != "1" {
			most = string(c)
		}
	}
	switch {
	case len(near) == site.Size():
		return shm.Connect(ctx, site, shm.Options{})
	case most == "1":
		return tcp.Connect(ctx, site)
	}
	part, err := link.Part(site, near)
	if err != nil {
		return nil, err
	}
	l, err := shm.Connect(ctx, part, shm.Options{})
	if err != nil {
		return nil, err
	}
	within, err := link.Within(l, near, site.Size())
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	between, err := tcp.Connect(ctx, site)
	if err != nil {
		return nil, errors.Join(err, within.Close())
	}
	links := make([]link.Link, site.Size())
	for r := range links {
		switch {
		case r == site.Rank():
		case slices.Contains(near, r):
			links[r] = within
		default:
			links[r] = between
		}
	}
	if len(near) == 1 { // on a machine of its own in a job with others that are not
		return between, within.Close()
	}
	m, err := link.Mix(links...)
	if err != nil {
		return nil, errors.Join(err, within.Close(), between.Close())
	}
	return m, nil
}

// neighbours returns the ranks on this rank's machine, itself among them.
func neighbours(site link.Site) []int {
	var near []int
	for r := range site.Size() {
		if r == site.Rank() || site.SameHost(r) {
			near = append(near, r)
		}
	}
	return near
}

// devices reads which RDMA devices connect the ranks.
func (s *state) devices(job environ.Job) (hostfile.Devices, error) {
	text, err := job.ReadDevices()
	if err != nil {
		return nil, err
	}
	d, err := hostfile.ParseDevices(text)
	if err != nil {
		return nil, err
	}
	if len(d) != job.Size {
		return nil, fmt.Errorf("devices of %d ranks for a job of %d; is the file that of this job?", len(d), job.Size)
	}
	return d, nil
}

// nodes reads the addresses of MLX's ring.
func (s *state) nodes(job environ.Job) (hostfile.Nodes, error) {
	text, err := job.ReadNodes()
	if err != nil {
		return nil, err
	}
	n, err := hostfile.ParseNodes(text)
	if err != nil {
		return nil, err
	}
	if len(n) != job.Size {
		return nil, fmt.Errorf("addresses of %d ranks of a ring for a job of %d; is the file that of this job?", len(n), job.Size)
	}
	return n, nil
}

// mpiSite is the part of an MPI job that this process is.
type mpiSite interface {
	link.Site
	Close() error
}

// overMPI connects the ranks by MPI, which its launcher has started. MPI is opened
// once in a process's life: it stays the World's until Close.
func (s *state) overMPI(ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
	w := *s.mpi
	if w == nil {
		var err error
		if w, err = openMPI(s.cfg.Deadline, s.cfg.Getenv); err != nil {
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
	link, err := linkMPI(ctx, w)
	if err != nil {
		return nil, err
	}
	return s.communicator(ctx, w, link)
}
