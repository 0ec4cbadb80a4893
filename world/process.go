package world

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/job/meet"
	"github.com/gomoe/gomoe/jaccl/job/watch"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/link/tcp"
	"github.com/gomoe/gomoe/jaccl/mlx/ring"
)

// perProcess sets up this process's rank of a World of several processes.
func (s *state) perProcess(ctx context.Context, job environ.Job) error {
	s.info.Rank, s.info.Size, s.info.Local = job.Rank, job.Size, []int{job.Rank}
	if s.info.Transport == "local" {
		return fmt.Errorf("gomoe: transport local was asked for, and the ranks are %d processes; want auto, tcp or shm", job.Size)
	}
	life := &lifeline{}
	ctx, err := life.watch(ctx, job.Lifeline)
	if err != nil {
		return err
	}
	s.also = append(s.also, life.close)
	s.flight = newRecording(s.cfg, job)
	s.also = append(s.also, s.flight.close)
	c, err := s.connect(ctx, job)
	if err != nil {
		return fmt.Errorf("gomoe: rank %d of %d: set up: %w", job.Rank, job.Size, err)
	}
	s.comms = []jaccl.Communicator{s.flight.record(c, s.info.Transport)}
	life.failing(c)
	return nil
}

// overPlace meets the other ranks and connects them with links.
func (s *state) overPlace(ctx context.Context, job environ.Job, link func(context.Context, link.Site) (link.Link, error)) (jaccl.Communicator, error) {
	place, err := s.meet(ctx, job)
	if err != nil {
		return nil, err
	}
	l, err := s.agreed(ctx, place, link)
	if err != nil {
		return nil, err
	}
	defer place.Shut()
	return s.communicator(ctx, place, l)
}

// meet meets the other ranks at a Place, which the state closes.
func (s *state) meet(ctx context.Context, job environ.Job) (_ *meet.Place, err error) {
	opts := meet.Options{Rank: job.Rank, Size: job.Size, Deadline: s.deadline, Facts: s.facts(), Meetings: s.meetings}
	opts.Log = func(remote net.Addr, reason string) {
		fmt.Fprintf(s.cfg.log(), "gomoe: rank %d turned %v away: %s\n", job.Rank, remote, reason)
	}
	opts.Waiting = func(text string) { fmt.Fprintf(s.cfg.log(), "gomoe: %s\n", text) }
	if opts.Job, err = uuid.Parse(job.ID); err != nil {
		opts.Job = uuid.NewSHA1(uuid.NameSpaceURL, []byte("gomoe-job:"+job.ID))
	}
	if job.Size > 1 {
		if opts.Coordinator, err = job.Meeting(); err != nil {
			return nil, err
		}
		key, err := job.Key("")
		if err != nil {
			return nil, err
		}
		opts.Secret = []byte(key)
	}
	if job.Listener > 0 {
		// The port is free if a program between the launcher and this one has closed the
		// listener.
		if opts.Listener, err = inheritedListener(job.Listener, job.Coordinator); err != nil {
			fmt.Fprintf(s.cfg.log(), "gomoe: rank 0 listens by itself: %v\n", err)
		}
	}
	place, err := meet.Join(ctx, opts)
	if err != nil {
		return nil, err
	}
	s.also = append(s.also, place.Close)
	return place, nil
}

// agreed calls link, and then all ranks tell each other whether they have a link. If some
// ranks have none, all get an error. With auto all use TCP instead, and rank 0 logs it.
// link may fail on some ranks only; if the cause is local to this machine, it leaves the
// site usable.
func (s *state) agreed(ctx context.Context, site link.Site, link func(context.Context, link.Site) (link.Link, error)) (link.Link, error) {
	l, err := link(ctx, site)
	missing, gone := absent(ctx, site, "gomoe: who has a link", err)
	if gone == nil && missing == "" {
		return l, nil
	}
	if l != nil {
		err = errors.Join(err, l.Close())
	}
	switch {
	case gone != nil:
		return nil, errors.Join(err, gone)
	case s.info.Transport != "auto":
		return nil, &explained{fmt.Sprintf("transport %s is not to be had: %s", s.info.Transport, missing), err}
	case s.info.Rank == 0:
		fmt.Fprintf(s.cfg.log(), "gomoe: shared memory is not to be had: %s; instead: tcp\n", missing)
	}
	return tcp.Connect(ctx, site)
}

// explained is an error describing the consequence for all ranks.
type explained struct {
	text string
	err  error // nil if another rank had the error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.err }

// communicator returns a communicator over a link and takes ownership of the link.
func (s *state) communicator(ctx context.Context, site link.Site, link link.Link) (jaccl.Communicator, error) {
	if err := s.flight.agree(ctx, site); err != nil {
		return nil, errors.Join(err, link.Close())
	}
	var err error
	if s.machines, err = meetMachines(ctx, site); err != nil {
		return nil, errors.Join(err, link.Close())
	}
	w, err := watch.Start(ctx, site, watch.Options{Silence: max(s.deadline, 4*watch.DefaultHeartbeat), Dump: s.flight.asked})
	if err != nil {
		return nil, errors.Join(err, link.Close())
	}
	transport := link.Transport()
	c, err := engine.Connect(link, w, jaccl.Options{Deadline: s.deadline})
	if err != nil {
		return nil, errors.Join(err, link.Close(), w.Close())
	}
	s.info.Transport = transport
	s.flight.watched(w)
	return c, nil
}

// facts returns the facts that have to be equal on all ranks.
func (s *state) facts() []meet.Fact {
	mesh := "any"
	if s.mesh != nil {
		mesh = s.mesh.String()
	}
	return []meet.Fact{{Name: "version", Value: version()}, {Name: "transport", Value: s.info.Transport}, {Name: "deadline", Value: s.deadline.String()}, {Name: "mesh", Value: mesh}}
}

// lifeline watches a pipe from the launcher: when the pipe ends, the launcher has ended.
type lifeline struct {
	file   interface{ Close() error }
	cancel context.CancelCauseFunc
	done   chan struct{}
	comm   chan jaccl.Communicator
}

// errOrphan is the failure of ranks after the end of their launcher.
var errOrphan = errors.New("gomoe: the launcher of this job has ended")

// watch returns a context ending when the launcher ends. file is the pipe's descriptor; 0
// disables the watch.
func (l *lifeline) watch(ctx context.Context, file int) (context.Context, error) {
	if file == 0 {
		return ctx, nil
	}
	f, err := inheritedPipe(file)
	if err != nil { // a program between the launcher and this one has closed the pipe, and watches the launcher
		return ctx, nil
	}
	ctx, l.cancel = context.WithCancelCause(ctx)
	l.file, l.done, l.comm = f, make(chan struct{}), make(chan jaccl.Communicator, 1)
	go func() {
		defer close(l.done)
		var b [1]byte
		for {
			if _, err := f.Read(b[:]); err == nil {
				continue
			} else if errors.Is(err, os.ErrClosed) {
				return // by close
			}
			break
		}
		l.cancel(errOrphan)
		if c := <-l.comm; c != nil {
			c.Fail(errOrphan)
		}
	}()
	return ctx, nil
}

// failing makes the end of the launcher fail all collectives.
func (l *lifeline) failing(c jaccl.Communicator) {
	if l.file != nil {
		l.comm <- c
	}
}

// close ends the watch.
func (l *lifeline) close() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	select {
	case l.comm <- nil: // the goroutine no longer waits for a communicator
	default:
	}
	<-l.done
	l.cancel(nil)
	return err
}

// overRing connects the ranks by MLX's ring. If a file gives the addresses, other ranks
// may be processes of MLX; otherwise the ranks first meet.
func overRing(s *state, ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
	if job.Hostfile == "" && job.Coordinator != "" {
		return s.met(ctx, job, func(place link.Site) (jaccl.Communicator, error) {
			return ring.Join(ctx, place, jaccl.Options{Deadline: s.deadline})
		})
	}
	nodes, err := job.ReadNodes()
	if err != nil {
		return nil, err
	}
	return ring.Connect(ctx, nodes, job.Rank, jaccl.Options{Deadline: s.deadline})
}

// met is for protocols of MLX without given addresses of the ranks: the ranks meet, and
// then join connects them over connections of the site, on which both sides have proved
// that they belong to the job. If one rank cannot join, all ranks get an error.
func (s *state) met(ctx context.Context, job environ.Job, join func(link.Site) (jaccl.Communicator, error)) (jaccl.Communicator, error) {
	place, err := s.meet(ctx, job)
	if err != nil {
		return nil, err
	}
	c, err := join(place)
	missing, gone := absent(ctx, place, "gomoe: who has joined", err)
	if gone == nil && missing == "" {
		place.Shut()
		return c, nil
	}
	if c != nil {
		err = errors.Join(err, c.Close())
	}
	if gone != nil {
		return nil, errors.Join(err, gone)
	}
	return nil, &explained{"transport " + s.info.Transport + ": " + missing, err}
}

// absent tells all ranks whether this rank has an error. It returns the errors of all
// ranks as text, each error once; "" if there is none.
func absent(ctx context.Context, site link.Site, key string, err error) (string, error) {
	text := ""
	if err != nil {
		text = err.Error()
		text = text[:min(len(text), 1000)]
	}
	all, err := site.Gather(ctx, key, []byte(text))
	if err != nil {
		return "", err
	}
	var missing []string
	for r, b := range all {
		if len(b) == 0 || slices.ContainsFunc(all[:r], func(o []byte) bool { return string(o) == string(b) }) {
			continue
		}
		who := ""
		for o := r; o < len(all); o++ {
			if string(all[o]) == string(b) {
				who += fmt.Sprintf(", rank %d (%s)", o, site.Host(o))
			}
		}
		missing = append(missing, strings.TrimPrefix(who, ", ")+": "+string(b))
	}
	return strings.Join(missing, "; "), nil
}
