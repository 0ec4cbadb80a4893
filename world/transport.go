package world

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/link/shm"
	"github.com/gomoe/gomoe/jaccl/link/tcp"
)

// transport is a way to connect ranks that are processes of their own.
type transport struct {
	name string
	tag  string // the build tag that a program needs for it; empty for none
	// connect connects this rank with the others; nil in a program without the tag. After
	// an error it has released everything.
	connect func(s *state, ctx context.Context, job environ.Job) (jaccl.Communicator, error)
}

// transports returns all transports. Those that load libraries of the system are in
// native.go; static.go has the same names for programs that cannot load libraries.
func transports() []transport {
	return append([]transport{
		{"auto", "", over(automatic)},
		{"local", "", nil}, // all ranks are in one process, which needs nothing
		{"tcp", "", over(tcp.Connect)},
		{"shm", "", over(shared)},
		{"ring", "", overRing},
	}, native()...)
}

// Transports returns the names that Config.Transport and GOMOE_TRANSPORT accept.
func Transports() []string {
	var names []string
	for _, t := range transports() {
		names = append(names, t.name)
	}
	return names
}

// Native reports whether only programs that are built with -tags native have the transport
// of that name, because it loads a library of the system.
func Native(name string) bool {
	return slices.ContainsFunc(transports(), func(t transport) bool { return t.name == name && t.tag != "" })
}

// Has returns an error if this program lacks the transport of that name: there is none, or
// it loads a library of the system and the program was built without it.
func Has(name string) error {
	all := transports()
	i := slices.IndexFunc(all, func(t transport) bool { return t.name == name })
	if i < 0 {
		return fmt.Errorf("gomoe: transport %q, want one of %s", name, strings.Join(Transports(), ", "))
	}
	if t := all[i]; t.tag != "" && t.connect == nil {
		return fmt.Errorf("gomoe: %s", t.lacks())
	}
	return nil
}

// connect connects the ranks with the transport that was asked for.
func (s *state) connect(ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
	all := transports()
	t := all[slices.IndexFunc(all, func(t transport) bool { return t.name == s.info.Transport })] // setUp has checked the name
	if t.connect == nil {
		t.connect = over(t.missing)
	}
	return t.connect(s, ctx, job)
}

// lacks says why this program lacks the transport: it cannot load libraries of the system. A
// program that can is linked with the system's C library, and does not run with another one;
// a program that cannot is one static file.
func (t transport) lacks() string {
	return fmt.Sprintf("transport %s loads a library of the system, and this program is linked statically: build it with -tags %s", t.name, t.tag)
}

// missing is connect of a transport that this program lacks.
func (t transport) missing(context.Context, link.Site) (link.Link, error) {
	return nil, fmt.Errorf("%s: %w", t.lacks(), jaccl.ErrUnsupported)
}

// over returns the connect function of a transport whose ranks meet and use a link.
func over(connect func(context.Context, link.Site) (link.Link, error)) func(*state, context.Context, environ.Job) (jaccl.Communicator, error) {
	return func(s *state, ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
		return s.overPlace(ctx, job, connect)
	}
}

func shared(ctx context.Context, site link.Site) (link.Link, error) {
	return shm.Connect(ctx, site, shm.Options{})
}

// orTCP returns c if err is nil; else a communicator over TCP, if Fallback permits it. It is
// for transports whose ranks do not meet beforehand, so that they cannot agree to fall back:
// either all of them have the libraries and files or none has.
func (s *state) orTCP(ctx context.Context, job environ.Job, c jaccl.Communicator, err error) (jaccl.Communicator, error) {
	if err == nil || !s.cfg.Fallback || ctx.Err() != nil {
		return c, err
	}
	if err := s.instead("tcp", "transport %s is not to be had: %v", s.info.Transport, err); err != nil {
		return nil, err
	}
	return s.overPlace(ctx, job, tcp.Connect)
}
