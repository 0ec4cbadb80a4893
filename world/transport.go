package world

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/link/shm"
	"github.com/gomoe/gomoe/jaccl/link/tcp"
)

// Transport is a way to connect ranks in different processes, with its properties for
// programs that offer or check transports.
type Transport struct {
	Name string // its name in Config.Transport and GOMOE_TRANSPORT
	Doc  string // a short description
	// Tag is the build tag that the transport needs on Linux, where a program loading
	// system libraries is linked differently. It is empty if all programs have the
	// transport.
	Tag string
	// OneHost: the transport connects ranks of one machine only.
	OneHost bool
	// Devices: the transport uses the RDMA devices listed in a hostfile.
	Devices bool
	// MLX: the transport is a protocol of MLX. Ranks of MLX may take part, and only MLX's
	// operations exist.
	MLX bool
	// Launcher is the program that must start the ranks; empty for gomoe launch and
	// others.
	Launcher string
	connect  connector
}

// connector connects this rank with the others. After an error it has released everything.
type connector func(s *state, ctx context.Context, job environ.Job) (jaccl.Communicator, error)

// Transports returns all transports. The connectors of transports with a tag are in
// native.go.
func Transports() []Transport {
	all := []Transport{
		{Name: "auto", Doc: "shm within a machine and tcp between machines", connect: over(automatic)},
		{Name: "local", Doc: "ranks of one process", OneHost: true}, // needs no connection
		{Name: "tcp", Doc: "TCP connections", connect: over(tcp.Connect)},
		{Name: "shm", Doc: "memory that the processes of a machine share", OneHost: true, connect: over(shared)},
		{Name: "ring", Doc: "MLX's TCP ring", MLX: true, connect: overRing},
		{Name: "verbs", Doc: "RDMA devices", Tag: "native", Devices: true},
		{Name: "mpi", Doc: "an installed MPI", Tag: "native", Launcher: "mpirun"},
		{Name: "jaccl", Doc: "MLX's JACCL, over RDMA devices", Tag: "native", Devices: true, MLX: true},
	}
	for i, t := range all {
		if t.Tag != "" {
			all[i].connect = native(t.Name)
		}
	}
	return all
}

// TransportOf returns the transport of that name, or the zero Transport if there is none.
func TransportOf(name string) Transport {
	all := Transports()
	if i := slices.IndexFunc(all, func(t Transport) bool { return t.Name == name }); i >= 0 {
		return all[i]
	}
	return Transport{}
}

// TransportNames returns the names of all transports, with commas between.
func TransportNames() string {
	var names []string
	for _, t := range Transports() {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

// TransportFlag defines the flag -transport, for Config.Transport.
func TransportFlag(fs *flag.FlagSet) *string {
	return fs.String("transport", "", "`transport` between the processes of gomoe launch, mpirun and others: "+TransportNames()+"; GOMOE_TRANSPORT or auto if not given")
}

// Has returns an error if this program lacks the transport of that name: there is none,
// or it loads a system library and the program was built without support for it.
func Has(name string) error {
	switch t := TransportOf(name); {
	case t.Name == "":
		return fmt.Errorf("gomoe: transport %s, want one of %s", quoted.Text(name), TransportNames())
	case t.Tag != "" && t.connect == nil:
		return fmt.Errorf("gomoe: %s", t.lacks())
	}
	return nil
}

// connect connects the ranks with the requested transport.
func (s *state) connect(ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
	t := TransportOf(s.info.Transport) // setUp has checked the name
	if t.connect == nil {
		t.connect = over(t.missing)
	}
	return t.connect(s, ctx, job)
}

// lacks returns the reason why this program lacks the transport: it cannot load system
// libraries. A program that can is linked with the system's C library, and does not run
// with another one; a program that cannot is one static file.
func (t Transport) lacks() string {
	return fmt.Sprintf("transport %s loads a library of the system, and this program is linked statically: build it with -tags %s", t.Name, t.Tag)
}

// missing is the connect function of a transport that this program lacks.
func (t Transport) missing(context.Context, link.Site) (link.Link, error) {
	return nil, fmt.Errorf("%s: %w", t.lacks(), jaccl.ErrUnsupported)
}

// over returns the connect function of a transport for ranks that meet and use a link.
func over(connect func(context.Context, link.Site) (link.Link, error)) connector {
	return func(s *state, ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
		return s.overPlace(ctx, job, connect)
	}
}

func shared(ctx context.Context, site link.Site) (link.Link, error) {
	return shm.Connect(ctx, site, shm.Options{})
}

// orTCP returns c if err is nil; else a communicator over TCP, if Fallback permits it. It
// is for transports without a meeting beforehand, so ranks cannot agree to fall back:
// either all of them have the libraries and files, or none does.
func (s *state) orTCP(ctx context.Context, job environ.Job, c jaccl.Communicator, err error) (jaccl.Communicator, error) {
	if err == nil || !s.cfg.Fallback || ctx.Err() != nil {
		return c, err
	}
	if err := s.instead("tcp", "transport %s is not to be had: %v", s.info.Transport, err); err != nil {
		return nil, err
	}
	return s.overPlace(ctx, job, tcp.Connect)
}
