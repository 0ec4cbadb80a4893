package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gomoe/gomoe/internal/frame"
	"github.com/gomoe/gomoe/jaccl/link"
)

// mover moves the bytes of an exchange.
type mover interface {
	// exchange sends and receives all data of the active peers. If heads is not nil,
	// exchange calls it once, when this rank's heads have been sent and no peer is at
	// stage heading any more.
	exchange(ctx context.Context, active []*peer, heads func() error) error
	// interrupt makes exchange return soon. It may be called at any time before close, by
	// any goroutine.
	interrupt()
	// close closes the connections; no exchange is in progress.
	close()
}

// Connect returns a link of this rank to all others of the site. All ranks call it; it
// blocks until all have. The caller closes the link, which owns its connections.
func Connect(ctx context.Context, site link.Site) (link.Link, error) {
	conns, err := site.Dial(ctx, "tcp")
	if err != nil {
		return nil, fmt.Errorf("tcp: %w", err)
	}
	return connect(site, conns, sockets)
}

// connect returns a link over conns, by rank, which it owns. On error it closes them.
func connect(site link.Site, conns []net.Conn, move func([]net.Conn) (mover, error)) (link.Link, error) {
	l := &transport{rank: site.Rank(), size: site.Size(), peers: make([]*peer, site.Size())}
	for r := range l.peers {
		if r != l.rank {
			l.peers[r] = &peer{rank: r, name: fmt.Sprintf("rank %d (%s)", r, site.Host(r))}
		}
	}
	l.near(site)
	var err error
	if l.mover, err = move(conns); err != nil {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
		return nil, fmt.Errorf("tcp: %w", err)
	}
	return l, nil
}

// near marks the peers with cores that this rank avoids; see apart.
func (l *transport) near(site link.Site) {
	ranks := 1
	for r, p := range l.peers {
		if p != nil && site.SameHost(r) {
			ranks++
		}
	}
	for r, p := range l.peers[:l.rank] {
		p.near = ranks <= runtime.NumCPU() && site.SameHost(r)
	}
}

// transport is one rank's connections to all others. It implements link.Link.
type transport struct {
	rank, size int
	peers      []*peer // by rank
	mover      mover

	busy   sync.Mutex // held by Exchange
	active []*peer
	shown  [][]byte // the heads for Heads, reused
	broken error    // of the first exchange that failed
	closed atomic.Bool
	once   sync.Once
}

var _ link.Link = (*transport)(nil)

var errClosed = errors.New("tcp: the link is closed")

func (l *transport) Rank() int         { return l.rank }
func (l *transport) Size() int         { return l.size }
func (l *transport) Transport() string { return "tcp" }

// Exchange implements link.Link. After an exchange has failed, every later call returns the
// same error.
func (l *transport) Exchange(ctx context.Context, x *link.Exchange) error {
	l.busy.Lock()
	defer l.busy.Unlock()
	x.Begin()
	switch {
	case l.closed.Load():
		return errClosed
	case l.broken != nil:
		return l.broken
	case ctx.Err() != nil:
		l.broken = context.Cause(ctx)
		return l.broken
	}
	if err := l.check(x); err != nil {
		return err
	}
	l.active = l.active[:0]
	for i, r := range x.Peers {
		p := l.peers[r]
		p.begin(x, i)
		l.active = append(l.active, p)
	}
	l.broken = l.run(ctx, x)
	for _, p := range l.active {
		p.end()
	}
	if l.broken != nil && l.closed.Load() {
		l.broken = errClosed
	}
	return l.broken
}

// run moves all bytes of an exchange. If there are heads, data is received only after Heads.
func (l *transport) run(ctx context.Context, x *link.Exchange) error {
	for _, p := range l.active {
		if p.stage == heading && p.w-p.r >= frame.Size { // the peer's header was read ahead in the last exchange
			if err := p.parse(); err != nil {
				return err
			}
		}
	}
	if x.Head == nil {
		return l.mover.exchange(ctx, l.active, nil)
	}
	return l.mover.exchange(ctx, l.active, func() error { return l.heads(x) })
}

// heads calls x.Heads and then starts to receive data.
func (l *transport) heads(x *link.Exchange) error {
	if x.Heads != nil {
		l.shown = l.shown[:0]
		for _, p := range l.active {
			l.shown = append(l.shown, p.head())
		}
		if err := x.Heads(l.shown); err != nil {
			return err
		}
	}
	for i, p := range l.active {
		if err := p.flow(buffers(x.Recv, i)); err != nil {
			return err
		}
	}
	return nil
}

// check returns an error for an exchange that is not well-formed.
func (l *transport) check(x *link.Exchange) error {
	if len(x.Head) > link.MaxHead {
		return fmt.Errorf("tcp: head of %d bytes, want at most %d", len(x.Head), link.MaxHead)
	}
	last := -1
	for _, r := range x.Peers {
		if r <= last || r >= l.size || r == l.rank {
			return fmt.Errorf("tcp: peers %v of rank %d, want others of 0 to %d, ascending", x.Peers, l.rank, l.size-1)
		}
		last = r
	}
	return nil
}

// Close implements link.Link. Peers can still read data sent before.
func (l *transport) Close() error {
	l.once.Do(func() {
		l.closed.Store(true)
		l.mover.interrupt()
		l.busy.Lock()
		defer l.busy.Unlock()
		l.mover.close()
	})
	return nil
}
