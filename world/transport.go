package world

import (
	"context"
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/link/shm"
	"github.com/gomoe/gomoe/jaccl/link/tcp"
)

// transport is what ranks that are processes may be connected by.
type transport struct {
	name string
	tag  string // that programs with it are built with; empty for none
	// connect connects this rank with the others; nil in a program without the tag. After
	// an error nothing is left of it.
	connect func(s *state, ctx context.Context, job environ.Job) (jaccl.Communicator, error)
}

// transports are all that there are. Those that load libraries of the system are in
// native.go, and in static.go without what they import.
func transports() []transport {
	return append([]transport{
		{"auto", "", over(automatic)},
		{"local", "", nil}, // all ranks are in one process, which needs nothing
		{"tcp", "", over(tcp.Connect)},
		{"shm", "", over(shared)},
		{"ring", "", overRing},
	}, native()...)
}

// Transports are the names that Config.Transport and GOMOE_TRANSPORT take.
func Transports() []string {
	var names []string
	for _, t := range transports() {
		names = append(names, t.name)
	}
	return names
}

// Native reports whether the transport of that name is only in programs that are built
// with -tags native, as it loads a library of the system.
func Native(name string) bool {
	return slices.ContainsFunc(transports(), func(t transport) bool { return t.name == name && t.tag != "" })
}

// connect connects the ranks with the transport that was asked for.
func (s *state) connect(ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
	all := transports()
	t := all[slices.IndexFunc(all, func(t transport) bool { return t.name == s.info.Transport })] // setUp has looked
	if t.connect == nil {
		t.connect = over(t.missing)
	}
	return t.connect(s, ctx, job)
}

// missing is why a transport that loads a library of the system is not there. A program
// that can load one is linked with the system's C library, and runs on no other; without,
// it is one static file.
func (t transport) missing(context.Context, link.Site) (link.Link, error) {
	return nil, fmt.Errorf("transport %s loads a library of the system, and this program is linked statically: build it with -tags %s: %w", t.name, t.tag, jaccl.ErrUnsupported)
}

// over is a transport whose ranks meet and are connected by links.
func over(connect func(context.Context, link.Site) (link.Link, error)) func(*state, context.Context, environ.Job) (jaccl.Communicator, error) {
	return func(s *state, ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
		return s.overPlace(ctx, job, connect)
	}
}

func shared(ctx context.Context, site link.Site) (link.Link, error) {
	return shm.Connect(ctx, site, shm.Options{})
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
