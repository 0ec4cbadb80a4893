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

	"github.com/gomoe/gomoe/internal/quoted"
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
	zone       string // the zone of this rank's end of its connection to rank 0; "" for none

	// all is the Place's gather: client's, coordinator's, compared's or alone.
	all    func(ctx context.Context, number uint32, key string, mine []byte) ([][]byte, error)
	number uint32 // of the next gather
	broken error  // the error of every later call; nil if nothing has failed

	door        *door    // nil in a job of one rank
	coordinator net.Conn // to rank 0; nil on rank 0 and if there is no coordinator
	hangUp      func()   // closes the connections to the coordinator, or the coordinator's; may be nil
	hello       hello
	once        sync.Once
	closing     chan struct{}
}

var _ link.Site = (*Place)(nil)

// Rank is this process's index.
func (p *Place) Rank() int { return p.rank }

// Size is the number of ranks.
func (p *Place) Size() int { return p.size }

// Host returns the name of a rank's machine, as given by the rank; "" if there is no such
// rank.
func (p *Place) Host(rank int) string {
	if rank < 0 || rank >= len(p.roster) {
		return ""
	}
	return p.roster[rank].host
}

// SameHost reports whether a rank runs under the same kernel as this rank, in the same
// name space of processes and with the same file system of shared memory. If that cannot
// be determined, as on Windows, SameHost is true for this rank only.
func (p *Place) SameHost(rank int) bool {
	if rank < 0 || rank >= len(p.roster) {
		return false
	}
	return rank == p.rank || p.roster[rank].machine.shares(p.roster[p.rank].machine)
}

// Gather returns every rank's data, by rank; see link.Site. Every rank may pass at most 1
// MiB, and a key of at most 200 bytes. Gather blocks until all ranks have called it, up
// to the deadline, which counts from the arrival of the first rank. The error names the
// ranks and hosts that are missing, or that have called another gather.
func (p *Place) Gather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	if len(key) > maxKey || len(mine) > maxGather {
		return nil, fmt.Errorf("meet: gather %s: %d bytes and a key of %d, want at most %d and %d", quoted.Text(key), len(mine), len(key), maxGather, maxKey)
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
		case <-p.closing: // whatever the closing place made fail first
			err = fmt.Errorf("meet: %s: %w", quoted.Text(key), errClosed)
		default:
		}
		p.broken = err
		return nil, err
	}
	return all, nil
}

// while returns a context ending when ctx ends or the place is closed. The caller calls
// the returned function when the context is no longer needed.
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

// Dial returns a new connection to each other rank; see link.Site. A purpose has at most
// 200 bytes. Every rank connects to the ranks below it. No rank gets its connections
// before all ranks have connected; if one rank could not connect, all get its error.
func (p *Place) Dial(ctx context.Context, purpose string) ([]net.Conn, error) {
	if len(purpose) > maxKey {
		return nil, fmt.Errorf("meet: dial %s: a purpose of %d bytes, want at most %d", quoted.Text(purpose), len(purpose), maxKey)
	}
	if p.broken != nil {
		return nil, p.broken
	}
	conns := make([]net.Conn, p.size)
	report := p.connect(ctx, purpose, conns)
	all, err := p.gather(ctx, dialing+purpose, []byte(clip(report)))
	for rank := 0; err == nil && rank < p.size; rank++ {
		if len(all[rank]) > 0 {
			err = fmt.Errorf("meet: %s: %s: %s", quoted.Text(dialing+purpose), p.roster.name(rank), printable(all[rank]))
		}
	}
	for rank := p.rank + 1; err == nil && rank < p.size; rank++ {
		conns[rank], err = p.door.take(rank, purpose)
	}
	for _, c := range conns {
		if c, ok := c.(*net.TCPConn); ok {
			c.SetKeepAlive(false) // the job's deadline detects ranks that are cut off
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

// connect connects to all ranks below this one at the same time. It returns a description
// of the failure for the other ranks, or "".
func (p *Place) connect(ctx context.Context, purpose string, conns []net.Conn) string {
	// Half of the deadline: the others wait for this rank's report until the deadline.
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

// reach connects to one rank. It tries a few times, because a busy listener turns
// connections away.
func (p *Place) reach(ctx context.Context, rank int, purpose string) (net.Conn, error) {
	e := p.roster[rank]
	near := e.machine.near(p.roster[p.rank].machine)
	var addrs []netip.AddrPort
	for _, a := range reachable(e.addrs, near) {
		// The address has the other rank's name of the interface, replaced here by this
		// rank's.
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
	var last error // of an attempt, not of its interruption, if there is one
	for try := range 4 {
		if try > 0 && !pause(ctx, time.Duration(try)*50*time.Millisecond) {
			break
		}
		h := h
		conn, err := dial(ctx, addrs, func(c net.Conn) error {
			_, err := knock(ctx, c, p.door.secret, &h)
			return err
		})
		if err == nil {
			return conn, nil
		}
		if last == nil || !cutOff(ctx) {
			last = err
		}
	}
	if cutOff(ctx) {
		<-ctx.Done()
		return nil, fmt.Errorf("%w (%w)", context.Cause(ctx), last)
	}
	return nil, last
}

// Shut closes this rank's listener. Afterwards Dial fails if another rank has to connect
// to this one; Gather works as before. All ranks call it when needing no further Dial, so
// that no port is open for strangers.
func (p *Place) Shut() {
	if p.door != nil {
		p.door.shut()
	}
}

// Close ends the place: its listener, its connection to the coordinator, and a Gather or
// Dial in progress. It does not close connections that Dial has returned. Rank 0's place
// is the coordinator, so that after its Close a Gather of the other ranks fails. Close
// returns nil and may be called twice.
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
