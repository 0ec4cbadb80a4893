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
	"github.com/gomoe/gomoe/jaccl/mlx/headless"
)

// The waits between attempts to connect: MLX waits 1, 2, 4 and 8 s, but opens an
// address only when the one before has been taken, which is soon.
const (
	firstWait = 20 * time.Millisecond
	maxWait   = time.Second
)

// Connect joins the ring as one of its ranks: it waits at nodes[rank] for the rank
// before and connects to nodes[rank+1]. It blocks until both neighbours are
// there, until ctx ends, or until the deadline of opts has passed. A ring of one
// rank has no connections.
//
// Nothing is said on a connection when it is made, so whoever connects first is
// taken for the neighbour, as MLX does: keep the addresses in a network that you
// trust.
//
// The communicator's errors are of type *jaccl.Error. After the first, but for
// jaccl.ErrUnsupported, all operations of this rank fail with it, and its
// connections are closed, by which the neighbours learn of it.
func Connect(ctx context.Context, nodes hostfile.Nodes, rank int, opts jaccl.Options) (jaccl.Communicator, error) {
	return ConnectListening(ctx, nodes, rank, nil, opts)
}

// ConnectListening is Connect of a rank that has opened its addresses already, as to
// know their ports before the others do: listeners are open at those of nodes[rank],
// in that order. It closes them, whatever becomes of the ring. With none, it is
// Connect.
func ConnectListening(ctx context.Context, nodes hostfile.Nodes, rank int, listeners []net.Listener, opts jaccl.Options) (jaccl.Communicator, error) {
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	if err := nodes.Check(); err != nil {
		return nil, fmt.Errorf("ring: connect: %w", err)
	}
	n := len(nodes)
	if rank < 0 || rank >= n {
		return nil, fmt.Errorf("ring: connect: rank %d, want 0 to %d", rank, n-1)
	}
	if len(listeners) > 0 && len(listeners) != len(nodes[rank]) {
		return nil, fmt.Errorf("ring: connect: %d listeners for %d addresses of rank %d, want as many, or none", len(listeners), len(nodes[rank]), rank)
	}
	if opts.Deadline < 0 {
		return nil, fmt.Errorf("ring: connect: deadline %v, want 0 for %v or more", opts.Deadline, jaccl.DefaultDeadline)
	}
	if opts.Deadline == 0 {
		opts.Deadline = jaccl.DefaultDeadline
	}
	m := &comm{Member: headless.Member{Prefix: "ring: ", Rank: rank, Index: rank, Size: n},
		Lacking: headless.Lacking{Prefix: "ring: ", Protocol: "MLX's ring", Job: "a ring", Instead: "tcp", Rank: rank},
		rank:    rank, nodes: nodes, deadline: opts.Deadline}
	if n == 1 {
		return m, nil
	}
	late := fmt.Errorf("not within %v", opts.Deadline)
	ctx, cancel := context.WithTimeoutCause(ctx, opts.Deadline, late)
	defer cancel()
	if err := m.join(ctx, listeners); err != nil {
		m.shut()
		return nil, fmt.Errorf("ring: connect: rank %d of %d: %w", rank, n, err)
	}
	return m, nil
}

// join makes the connections. MLX's last rank connects before it accepts, the
// others afterwards; here all addresses are open from the beginning and both is
// done at once, which fits either, as connections wait until they are accepted.
func (m *comm) join(ctx context.Context, listeners []net.Listener) error {
	n := len(m.nodes)
	before, after := (m.rank+n-1)%n, (m.rank+1)%n
	opened := len(listeners) > 0
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	var lc net.ListenConfig
	for _, a := range m.nodes[m.rank] {
		if opened {
			break
		}
		l, err := lc.Listen(ctx, "tcp", a)
		if err != nil {
			return fmt.Errorf("%w; rank %d's addresses are to be this machine's, and free", err, m.rank)
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
		for _, a := range m.nodes[after] {
			c, err := dial(ctx, a)
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
			fromErr = fmt.Errorf("rank %d did not connect to %s: %w; is it started, with the same addresses?", before, m.nodes[m.rank][i], err)
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

// dial connects to an address, again and again until ctx ends.
func dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		c, err := d.DialContext(ctx, "tcp", address) // without delay, which is Go's default
		if err == nil {
			return c, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w, %w", context.Cause(ctx), err)
		}
	}
}
