package world

import (
	"context"
	"errors"
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

// automatic returns a link using shared memory within machines and TCP between them. All
// ranks choose the same kinds of link. If only some ranks share a machine, all ranks take
// part in making both links, because the site's Gather and Dial are collective.
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
		return shared(ctx, site)
	case most == "1":
		return tcp.Connect(ctx, site)
	}
	// Shared memory comes last: if one machine has none, its ranks return, and the others
	// do not wait for them.
	between, err := tcp.Connect(ctx, site)
	if err != nil {
		return nil, err
	}
	within, err := sharedAmong(ctx, site, near)
	if err != nil {
		return nil, errors.Join(err, between.Close())
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
	if len(near) == 1 { // this rank is alone on its machine, while others share one
		return between, within.Close()
	}
	m, err := link.Mix(links...)
	if err != nil {
		return nil, errors.Join(err, within.Close(), between.Close())
	}
	return m, nil
}

// sharedAmong returns a link of the job using shared memory between the near ranks.
func sharedAmong(ctx context.Context, site link.Site, near []int) (link.Link, error) {
	nearSite, err := link.SiteAmong(site, near)
	if err != nil {
		return nil, err
	}
	l, err := shared(ctx, nearSite)
	if err != nil {
		return nil, err
	}
	within, err := link.LinkAmong(l, near, site.Size())
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return within, nil
}

// neighbours returns the ranks on this rank's machine, including this rank.
func neighbours(site link.Site) []int {
	var near []int
	for r := range site.Size() {
		if r == site.Rank() || site.SameHost(r) {
			near = append(near, r)
		}
	}
	return near
}
