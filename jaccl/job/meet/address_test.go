package meet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every form of an address that the machine has.
func TestAddresses(t *testing.T) {
	own, err := interfaces()
	require.NoError(t, err)
	hosts := []string{"localhost"}
	for _, a := range own {
		if a.IsLinkLocalUnicast() {
			a = a.WithZone(zoneOf(t, a))
		}
		hosts = append(hosts, a.String())
	}
	for _, host := range hosts {
		t.Run(host, func(t *testing.T) {
			opts := options(t, 3)
			at := port(t, host)
			if _, n, err := net.SplitHostPort(at); err == nil { // a listener's address lacks the zone
				at = net.JoinHostPort(host, n)
			}
			for i := range opts {
				opts[i].Coordinator = at
			}
			exercise(t, joined(t, opts))
		})
	}
}

// zoneOf returns the interface that has a link-local address.
func zoneOf(t *testing.T, ip netip.Addr) string {
	t.Helper()
	all, err := net.Interfaces()
	require.NoError(t, err)
	for _, i := range all {
		addrs, err := i.Addrs()
		require.NoError(t, err)
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == ip {
				return i.Name
			}
		}
	}
	t.Fatalf("no interface has %v", ip)
	return ""
}

// Rank 0 uses an open listener.
func TestGiven(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	opts := options(t, 3)
	opts[0].Listener, opts[0].Coordinator = ln, ""
	for i := range opts[1:] {
		opts[i+1].Coordinator = ln.Addr().String()
	}
	places, errs := join(t, opts)
	for i, err := range errs {
		require.NoError(t, err, "rank %d", i)
	}
	if a := places[2].roster[1].addrs[0].Addr(); a != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("rank 1 is dialed at %v, want its end of the connection", a)
	}
	exercise(t, places)
	// Every rank has a port of its own.
	for i, p := range places {
		for j, q := range places[:i] {
			if p.door.ln.Addr().String() == q.door.ln.Addr().String() {
				t.Errorf("ranks %d and %d listen at %v", i, j, p.door.ln.Addr())
			}
		}
	}
}

// Several addresses of a host are tried in order.
func TestInOrder(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	good, err := endpoint(ln.Addr())
	require.NoError(t, err)
	closed, err := netip.ParseAddrPort(port(t, "127.0.0.1"))
	require.NoError(t, err)
	conn, err := dial(t.Context(), []netip.AddrPort{closed, good}, func(c net.Conn) error { return nil })
	require.NoError(t, err)
	conn.Close()
	errNo := errors.New("not you")
	_, err = dial(t.Context(), []netip.AddrPort{good, closed}, func(c net.Conn) error { return errNo })
	if !errors.Is(err, errNo) || !strings.Contains(err.Error(), closed.String()) {
		t.Errorf("%v, want both reasons", err)
	}
}

func TestLookup(t *testing.T) {
	for _, c := range []struct{ host, want string }{
		{"fe80::1", "link-local address"}, {"fe80::1%eth0", ""}, {"::1", ""}, {"127.0.0.1", ""}, {"::ffff:127.0.0.1", ""}, {"localhost", ""},
	} {
		ips, err := lookup(t.Context(), c.host)
		if c.want == "" && (err != nil || len(ips) == 0 || ips[0].Is4In6()) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v %v, want %q", c.host, ips, err, c.want)
		}
	}
}

// A pod's name, which its rank 0 has from the manifest, may be unknown to the name service
// when the pod starts.
func TestListenAtOwnUnknownName(t *testing.T) {
	_, p, err := net.SplitHostPort(port(t, "127.0.0.1"))
	require.NoError(t, err)
	own, _, _ := strings.Cut(hostname(), ".")
	ln, err := listen(t.Context(), Options{Coordinator: net.JoinHostPort(own+".gomoe.invalid", p)})
	require.NoError(t, err)
	defer ln.Close()
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", p))
	require.NoError(t, err)
	conn.Close()
	_, err = listen(t.Context(), Options{Coordinator: net.JoinHostPort(own+"x.gomoe.invalid", p)})
	require.ErrorContains(t, err, "x.gomoe.invalid")
	for _, c := range []struct {
		host, own string
		want      bool
	}{
		{"train-0.train", "train-0", true}, {"Train-0", "train-0.train.default.svc", true},
		{"train-1.train", "train-0", false}, {"", "", false}, {".train", ".train", false}, {"train-0x.train", "train-0", false},
	} {
		require.Equal(t, c.want, isOwnName(c.host, c.own), "%v", c)
	}
}

// Loopback is no address to give to another machine, or another name space.
func TestLoopbackElsewhere(t *testing.T) {
	a := machine{boot: "a", memory: "m", network: "n"}
	at := func(s string) []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort(s)} }
	for _, c := range []struct {
		name  string
		other machine
		addr  string
		want  string
	}{
		{"one machine", a, "127.0.0.1:5", ""},
		{"another machine", machine{boot: "b", memory: "m", network: "n"}, "127.0.0.1:5", "rank 1 (host1) can only be reached at 127.0.0.1, which is another machine to rank 0 (host0)"},
		{"another name space", machine{boot: "a", memory: "m", network: "o"}, "[::1]:5", "rank 1 (host1) can only be reached at ::1, which"},
		{"an address of the network", machine{boot: "b"}, "10.0.0.1:5", ""},
	} {
		r := roster{{host: "host0", machine: a}, {host: "host1", machine: c.other, addrs: at(c.addr)}}
		err := r.check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// Ranks share memory if their kernel, their file system of shared memory and their name space
// of processes are the same, and only then.
func TestShares(t *testing.T) {
	a := machine{"boot", "memory", "network"}
	for _, c := range []struct {
		b            machine
		shares, near bool
	}{
		{a, true, true},
		{machine{"boot", "memory", "other"}, true, false},
		{machine{"boot", "other", "network"}, false, true},
		{machine{"other", "memory", "network"}, false, false},
		{machine{"", "", "network"}, false, false},
	} {
		if a.shares(c.b) != c.shares || c.b.shares(a) != c.shares || a.near(c.b) != c.near {
			t.Errorf("%+v: shares %v, near %v, want %v, %v", c.b, a.shares(c.b), a.near(c.b), c.shares, c.near)
		}
	}
	if unknown := (machine{network: "name"}); unknown.shares(unknown) {
		t.Error("two ranks of a machine that cannot be told share memory")
	}
}

// board is the gather that ranks already have, for Over.
type board struct {
	mu   sync.Mutex
	cond *sync.Cond
	data [][][]byte // by turn and rank
}

func (b *board) gather(rank, size int) func(context.Context, string, []byte) ([][]byte, error) {
	turn := 0
	return func(ctx context.Context, key string, mine []byte) ([][]byte, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for len(b.data) <= turn {
			b.data = append(b.data, make([][]byte, size))
		}
		at := b.data[turn]
		turn++
		at[rank] = append([]byte{}, mine...)
		b.cond.Broadcast()
		for r := range at {
			for at[r] == nil {
				b.cond.Wait()
			}
		}
		return at, nil
	}
}

func over(t *testing.T, n int, change func(o []Options)) ([]*Place, []error) {
	t.Helper()
	b := &board{}
	b.cond = sync.NewCond(&b.mu)
	opts := make([]Options, n)
	for i := range opts {
		opts[i].Host = fmt.Sprint("host", i)
	}
	change(opts)
	places, errs := make([]*Place, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range places {
		wg.Go(func() { places[i], errs[i] = Over(t.Context(), i, n, b.gather(i, n), opts[i]) })
	}
	wg.Wait()
	t.Cleanup(func() {
		for _, p := range places {
			if p != nil {
				p.Close()
			}
		}
	})
	return places, errs
}

func TestOver(t *testing.T) {
	for _, n := range []int{1, 3} {
		places, errs := over(t, n, func([]Options) {})
		require.NoError(t, errors.Join(errs...))
		exercise(t, places)
		if n > 1 && (places[0].door.job != places[1].door.job || string(places[0].door.secret) != string(places[2].door.secret) || len(places[0].door.secret) != 32) {
			t.Error("the ranks have not got one secret")
		}
		for _, p := range places {
			if !p.SameHost(0) || p.Host(0) != "host0" {
				t.Errorf("rank %d: rank 0 is on %q, this host: %v", p.Rank(), p.Host(0), p.SameHost(0))
			}
		}
	}
	_, errs := over(t, 2, func(o []Options) { o[1].Facts = []Fact{{"a", "b"}} })
	says(t, errs, `rank 1 (host1) has a "b", of which rank 0 (host0) says nothing`)
	places, errs := over(t, 2, func([]Options) {})
	require.NoError(t, errors.Join(errs...))
	says(t, each(places, func(p *Place) error { _, err := p.Gather(t.Context(), fmt.Sprint(p.Rank()), nil); return err }),
		`rank 1 is at "gather 1", number 2, where rank 0 is at "gather 0", number 2`)
}
