package meet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/gomoe/gomoe/jaccl/link"
)

// Place is a rank's place in a job. Its Gather and Dial are for one goroutine at a
// time; Close may be called at any time from any goroutine.
//
// After an error of Gather or Dial every later call returns the same error, on
// every rank.
type Place struct {
	rank, size int
	deadline   time.Duration
	roster     roster
	zone       string // of this rank's link-local address

	all    func(ctx context.Context, number uint32, key string, mine []byte) ([][]byte, error)
	number uint32 // of the next gather
	broken error

	door        *door
	coordinator net.Conn // to rank 0; nil on rank 0 and where there is none
	hangUp      func()   // the connections to the coordinator, or to the ranks; may be nil
	hello       hello
	once        sync.Once
	closing     chan struct{}
}

var _ link.Site = (*Place)(nil)

// Rank is this process's index.
func (p *Place) Rank() int { return p.rank }

// Size is the number of ranks.
func (p *Place) Size() int { return p.size }

// Host names the machine of a rank, as it did itself; "" if there is no such rank.
func (p *Place) Host(rank int) string {
	if rank < 0 || rank >= len(p.roster) {
		return ""
	}
	return p.roster[rank].host
}

// SameHost reports whether a rank runs under the same kernel, in the same name
// space of processes and with the same file system of shared memory. Where that
// cannot be told, as on Windows, it is true for this rank only.
func (p *Place) SameHost(rank int) bool {
	if rank < 0 || rank >= len(p.roster) {
		return false
	}
	return rank == p.rank || p.roster[rank].machine.shares(p.roster[p.rank].machine)
}

// Gather returns what every rank passes, by rank; see link.Site. At most 1 MiB
// of each, with a key of at most 200 bytes. It blocks until all ranks have come, up
// to the deadline, which counts from the first one that has. The error names ranks
// and hosts that have not come, or that came to something else.
func (p *Place) Gather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	if len(key) > maxKey || len(mine) > maxGather {
		return nil, fmt.Errorf("meet: gather %.40q: %d bytes and a key of %d, want at most %d and %d", key, len(mine), len(key), maxGather, maxKey)
	}
	return p.gather(ctx, "gather "+key, mine)
}

func (p *Place) gather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	if p.broken != nil {
		return nil, p.broken
	}
	ctx, release := p.while(ctx)
	defer release()
	all, err := p.all(ctx, p.number, key, mine)
	p.number++
	if err != nil {
		select {
		case <-p.closing: // whatever it was that it met with first
			err = fmt.Errorf("meet: %q: %w", key, errClosed)
		default:
		}
		p.broken = err
		return nil, err
	}
	return all, nil
}

// while returns a context that ends with ctx and when the place is closed.
func (p *Place) while(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-p.closing:
			cancel(errClosed)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		wg.Wait()
	}
}

var errClosed = errors.New("the place was closed")

// Dial returns a new connection to each other rank; see link.Site. A purpose has
// at most 200 bytes. Every rank connects to those below it. No rank gets its
// connections before all have connected; if one could not, all get its error.
func (p *Place) Dial(ctx context.Context, purpose string) ([]net.Conn, error) {
	if len(purpose) > maxKey {
		return nil, fmt.Errorf("meet: dial %.40q: a purpose of %d bytes, want at most %d", purpose, len(purpose), maxKey)
	}
	if p.broken != nil {
		return nil, p.broken
	}
	conns := make([]net.Conn, p.size)
	report := p.connect(ctx, purpose, conns)
	all, err := p.gather(ctx, dialing+purpose, []byte(clip(report)))
	for rank := 0; err == nil && rank < p.size; rank++ {
		if len(all[rank]) > 0 {
			err = fmt.Errorf("meet: %q: %s: %s", dialing+purpose, p.roster.name(rank), printable(all[rank]))
		}
	}
	for rank := p.rank + 1; err == nil && rank < p.size; rank++ {
		conns[rank], err = p.door.take(rank, purpose)
	}
	for _, c := range conns {
		if c, ok := c.(*net.TCPConn); ok {
			c.SetKeepAlive(false) // the job's deadline says when a rank is cut off
		}
	}
	if p.door != nil {
		p.door.next()
	}
	if err != nil {
		p.broken = err
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
		return nil, err
	}
	return conns, nil
}

// connect connects to all ranks below this one at once, and says what went wrong.
func (p *Place) connect(ctx context.Context, purpose string, conns []net.Conn) string {
	// The others wait for the report until the deadline.
	ctx, cancel := context.WithTimeoutCause(ctx, p.deadline/2, fmt.Errorf("not within %v", p.deadline/2))
	defer cancel()
	ctx, release := p.while(ctx)
	defer release()
	errs := make([]error, p.rank)
	var wg sync.WaitGroup
	for rank := range p.rank {
		wg.Go(func() { conns[rank], errs[rank] = p.reach(ctx, rank, purpose) })
	}
	wg.Wait()
	for rank, err := range errs {
		if err != nil {
			return fmt.Sprintf("cannot connect to %s: %v", p.roster.name(rank), strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	return ""
}

// reach connects to one rank. It tries again a few times: a listener that is busy
// turns connections away.
func (p *Place) reach(ctx context.Context, rank int, purpose string) (net.Conn, error) {
	e := p.roster[rank]
	near := e.machine.near(p.roster[p.rank].machine)
	var addrs []netip.AddrPort
	for _, a := range reachable(e.addrs, near) {
		// The zone is the other's name of the link, not this rank's.
		if !near && a.Addr().Zone() != "" {
			a = netip.AddrPortFrom(a.Addr().WithZone(p.zone), a.Port())
		}
		if err := zoned(a.Addr()); err != nil {
			return nil, err
		}
		addrs = append(addrs, a)
	}
	if len(addrs) == 0 {
		return nil, errors.New("it has no address that this machine could reach")
	}
	h := p.hello
	h.to, h.purpose, h.turn = rank, dialing+purpose, p.door.turn
	var err error
	for try := range 4 {
		if try > 0 && !pause(ctx, time.Duration(try)*50*time.Millisecond) {
			break
		}
		var conn net.Conn
		h := h
		conn, err = dial(ctx, addrs, func(c net.Conn) error {
			_, err := knock(ctx, c, p.door.secret, &h)
			return err
		})
		if err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// Shut closes this rank's listener. Afterwards Dial fails where another rank has to connect
// to this one; Gather works as before. All ranks call it when they need no Dial any more, so
// that no port is open for strangers.
func (p *Place) Shut() {
	if p.door != nil {
		p.door.shut()
	}
}

// Close ends the place: its listener, its connection to the coordinator, a Gather
// or Dial in progress. Connections that Dial has returned are not its own. The
// place of rank 0 is the coordinator, so that a Gather of the others fails when it
// has closed.
func (p *Place) Close() error {
	p.once.Do(func() {
		close(p.closing)
		if p.door != nil {
			p.door.close()
		}
		if p.hangUp != nil {
			p.hangUp()
		}
	})
	return nil
}
