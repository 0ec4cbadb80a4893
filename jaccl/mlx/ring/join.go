package ring

import (
	"context"
	"fmt"
	"net"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/link"
)

// Join joins a ring of ranks that have met at a site. A stranger cannot take a rank's
// place, because the neighbours have proved that they belong to the job. The bytes on the
// connections are the same as after Connect, but MLX's own ranks cannot take part. All
// ranks must call Join.
func Join(ctx context.Context, site link.Site, opts jaccl.Options) (jaccl.Communicator, error) {
	rank, n := site.Rank(), site.Size()
	names := make([]string, n)
	for r := range names {
		names[r] = site.Host(r)
	}
	m, err := newComm(rank, names, opts)
	if err != nil {
		return nil, err
	}
	if n == 1 {
		return m, nil
	}
	// Two ranks are each other's neighbours on both sides, taking two connections. So the
	// connection from the last rank to the first is one of its own.
	before, after := (rank+n-1)%n, (rank+1)%n
	for _, last := range []bool{false, true} {
		purpose := "gomoe: ring"
		if last {
			purpose = "gomoe: ring, from the last rank to the first"
		}
		conns, err := site.Dial(ctx, purpose)
		if err != nil {
			m.shut()
			return nil, fmt.Errorf("ring: rank %d of %d: %w", rank, n, err)
		}
		take := func(peer int) *wire {
			w := &wire{Conn: conns[peer], peer: peer}
			conns[peer] = nil
			return w
		}
		if last == (rank == 0) {
			m.left = append(m.left, take(before))
		}
		if last == (after == 0) {
			m.right = append(m.right, take(after))
		}
		closeAll(conns)
	}
	return m, nil
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		if c != nil {
			c.Close()
		}
	}
}
