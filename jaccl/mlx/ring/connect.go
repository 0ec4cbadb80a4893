package ring

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/mlx/headless"
)

// The waits between attempts to connect. They are shorter than MLX's, which are 1, 2, 4
// and 8 s: a rank of MLX opens its next address only after connecting the one before it,
// which does not take long.
const (
	firstWait = 20 * time.Millisecond
	maxWait   = time.Second
)

// Connect joins the ring as one of its ranks: it waits at nodes[rank] for the rank before
// it, and connects to nodes[rank+1]. It blocks until both neighbours are connected, until
// ctx ends, or until the deadline of opts has passed. A ring of one rank has no
// connections.
//
// The protocol has no greeting, so Connect takes the first connection for the
// neighbour's, as MLX does. Keep the addresses in a trusted network, or let the ranks
// meet and use Join.
//
// The communicator's errors are of type *jaccl.Error. After the first error other than
// jaccl.ErrUnsupported, all operations of this rank fail with that error. Its connections
// are closed, so that the neighbours learn of the failure.
func Connect(ctx context.Context, nodes hostfile.Nodes, rank int, opts jaccl.Options) (jaccl.Communicator, error) {
	if err := nodes.Check(); err != nil {
		return nil, fmt.Errorf("ring: connect: %w", err)
	}
	names := make([]string, len(nodes))
	for r, addresses := range nodes {
		names[r] = addresses[0]
	}
	m, err := newComm(rank, names, opts)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 1 {
		return m, nil
	}
	late := fmt.Errorf("not within %v", m.deadline)
	ctx, cancel := context.WithTimeoutCause(ctx, m.deadline, late)
	defer cancel()
	if err := m.join(ctx, nodes); err != nil {
		m.shut()
		return nil, fmt.Errorf("ring: connect: rank %d of %d: %w", rank, len(nodes), err)
	}
	return m, nil
}

// newComm returns a rank without connections.
func newComm(rank int, names []string, opts jaccl.Options) (*comm, error) {
	n := len(names)
	if rank < 0 || rank >= n {
		return nil, fmt.Errorf("ring: connect: rank %d, want 0 to %d", rank, n-1)
	}
	deadline, err := opts.Wait()
	if err != nil {
		return nil, fmt.Errorf("ring: connect: %w", err)
	}
	return &comm{names: names, deadline: deadline, Member: headless.Member{
		Prefix: "ring: ", Protocol: "MLX's ring", Job: "a ring", Instead: "tcp", More: []string{"reduce_scatter"}, Members: headless.Everyone(n), Index: rank,
	}}, nil
}

// join makes the connections. MLX's last rank connects before accepting, and the other
// ranks accept first. Here all addresses are open from the beginning, and this rank
// connects and accepts at the same time. That fits both orders, because a connection
// waits for the accepting side.
func (m *comm) join(ctx context.Context, nodes hostfile.Nodes) error {
	n := len(nodes)
	before, after := (m.Index+n-1)%n, (m.Index+1)%n
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	var lc net.ListenConfig
	for _, a := range nodes[m.Index] {
		l, err := lc.Listen(ctx, "tcp", a)
		if err != nil {
			return fmt.Errorf("%w; rank %d's addresses are to be this machine's, and free", err, m.Index)
		}
		listeners = append(listeners, l)
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		for _, l := range listeners {
			l.Close()
		}
	})
	defer stop()
	var wg sync.WaitGroup
	var toErr error
	wg.Go(func() {
		for _, a := range nodes[after] {
			c, err := headless.Dial(ctx, "tcp", a, firstWait, maxWait)
			if err != nil {
				toErr = fmt.Errorf("no connection to rank %d at %s: %w; is it started, and the address right?", after, a, err)
				cancel(toErr)
				return
			}
			m.right = append(m.right, &wire{Conn: c, peer: after})
		}
	})
	var fromErr error
	for i, l := range listeners {
		c, err := l.Accept()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			fromErr = fmt.Errorf("rank %d did not connect to %s: %w; is it started, with the same addresses?", before, nodes[m.Index][i], err)
			cancel(fromErr)
			break
		}
		m.left = append(m.left, &wire{Conn: c, peer: before})
	}
	wg.Wait()
	switch {
	case toErr == nil || errors.Is(toErr, fromErr) && fromErr != nil:
		return fromErr
	case fromErr == nil || errors.Is(fromErr, toErr):
		return toErr
	}
	return fmt.Errorf("%w; and %w", toErr, fromErr)
}

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
