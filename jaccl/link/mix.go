package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gomoe/gomoe/jaccl"
)

// nobody marks the absence of a rank or a lane.
const nobody = -1

// Mix returns a link reaching different ranks over different links: for example shared
// memory within a machine and TCP between machines. links has, by rank, the link carrying
// data to and from that rank, and nil for this rank. Both sides of a pair must choose the
// same kind of link, and all must be links of the same job. The mix owns the links and
// closes them with itself.
func Mix(links ...Link) (Link, error) {
	m := &mix{rank: nobody, size: len(links), of: make([]int, len(links)), closed: make(chan struct{})}
	for peer, l := range links {
		if l == nil {
			if m.rank != nobody {
				return nil, fmt.Errorf("jaccl: mix: no links for ranks %d and %d, want none for this rank alone", m.rank, peer)
			}
			m.rank, m.of[peer] = peer, nobody
			continue
		}
		k := slices.IndexFunc(m.lanes, func(o *lane) bool { return o.link == l })
		if k < 0 {
			k = len(m.lanes)
			m.lanes = append(m.lanes, &lane{link: l, start: make(chan context.Context, 1), heard: make(chan error, 1)})
		}
		m.of[peer] = k
	}
	if m.rank == nobody {
		return nil, fmt.Errorf("jaccl: mix: a link for each of %d ranks, want nil for this one", len(links))
	}
	for peer, l := range links {
		if l != nil && (l.Rank() != m.rank || l.Size() != m.size) {
			return nil, fmt.Errorf("jaccl: mix: the %s link for rank %d is rank %d of %d, want rank %d of %d", l.Transport(), peer, l.Rank(), l.Size(), m.rank, m.size)
		}
	}
	m.events = make(chan event, 2*len(m.lanes))
	for _, l := range m.lanes {
		m.running.Go(func() { l.run(m) })
	}
	return m, nil
}

// mix implements Lender; Lease returns ErrUnsupported if none of its links is a Lender.
type mix struct {
	rank, size int
	of         []int // by rank: the index of the rank's lane
	lanes      []*lane
	events     chan event // buffers all events of one exchange
	heads      [][]byte   // the peers' heads, by index in Peers

	// ctx is derived from parent, the context of the last exchange. If an exchange fails
	// on one lane, ctx ends, ending the exchange on the other lanes. No exchange follows
	// after that.
	parent, ctx context.Context
	cancel      context.CancelCauseFunc

	once    sync.Once
	closed  chan struct{}
	running sync.WaitGroup
	err     error
}

// lane is one of the links and its part of the exchange in progress.
type lane struct {
	link  Link
	x     Exchange             // the link's part of the exchange
	start chan context.Context // makes run begin an exchange
	heard chan error           // carries the verdict on the heads of all lanes to run
	waits bool                 // the lane waits for heard
}

// event reports that a lane has received the heads of its peers, or that its exchange has
// ended.
type event struct {
	l     *lane
	heads [][]byte
	end   bool
	err   error
}

func (m *mix) Rank() int { return m.rank }
func (m *mix) Size() int { return m.size }

// Transport implements Link: the names of all links, as in shm+tcp.
func (m *mix) Transport() string {
	var names []string
	for _, l := range m.lanes {
		if name := l.link.Transport(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

// Lease implements Lender: the memory belongs to the first link lending some. For the
// other links it is ordinary memory.
func (m *mix) Lease(n int) ([]byte, func() error, error) {
	for _, lane := range m.lanes {
		if l, ok := lane.link.(Lender); ok {
			if b, release, err := l.Lease(n); !errors.Is(err, jaccl.ErrUnsupported) {
				return b, release, err
			}
		}
	}
	return nil, nil, fmt.Errorf("jaccl: lease: %s link: %w", m.Transport(), jaccl.ErrUnsupported)
}

// run does the lane's part of one exchange after another, until the mix is closed.
func (l *lane) run(m *mix) {
	heads := func(heads [][]byte) error {
		m.events <- event{l: l, heads: heads}
		return <-l.heard
	}
	for {
		select {
		case ctx := <-l.start:
			if l.x.Head != nil {
				l.x.Heads = heads
			}
			m.events <- event{l: l, end: true, err: l.link.Exchange(ctx, &l.x)}
		case <-m.closed:
			return
		}
	}
}

// Exchange implements Link. All lanes run at the same time.
func (m *mix) Exchange(ctx context.Context, x *Exchange) error {
	if l := m.only(x); l != nil {
		return l.link.Exchange(ctx, x)
	}
	x.Begin()
	select {
	case <-m.closed:
		return fmt.Errorf("jaccl: %s link of rank %d: %w", m.Transport(), m.rank, jaccl.ErrClosed)
	default:
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(x.Peers) == 0 {
		if x.Head != nil {
			return x.Heads(nil)
		}
		return nil
	}
	if m.parent != ctx {
		if m.cancel != nil {
			m.cancel(nil)
		}
		m.parent = ctx
		m.ctx, m.cancel = context.WithCancelCause(ctx)
	}
	open := m.divide(x)
	for _, l := range m.lanes {
		if len(l.x.Peers) > 0 {
			l.start <- m.ctx
		}
	}

	var verdict, first error
	silent := 0 // lanes waiting for heads
	if x.Head != nil {
		silent = open
	}
	judged := false
	for open > 0 {
		e := <-m.events
		if !e.end {
			silent--
			e.l.waits = true
			for k, i := range e.l.x.index {
				m.heads[i] = e.heads[k]
			}
			if silent == 0 && first == nil {
				verdict = x.Heads(m.heads)
				m.judge(x, verdict)
				judged = true
			}
		} else {
			open--
			if e.err != nil && first == nil {
				first = e.err
				m.cancel(e.err)
			}
		}
		if first != nil && !judged {
			m.judge(x, first)
		}
	}
	if verdict != nil {
		return verdict
	}
	return first
}

// only returns the lane of all peers; nil if there are several lanes or no peers.
func (m *mix) only(x *Exchange) *lane {
	if len(x.Peers) == 0 {
		return nil
	}
	k := m.of[x.Peers[0]]
	for _, peer := range x.Peers[1:] {
		if m.of[peer] != k {
			return nil
		}
	}
	return m.lanes[k]
}

// divide makes each lane's part of x, returning the number of lanes that have one.
func (m *mix) divide(x *Exchange) (open int) {
	for _, l := range m.lanes {
		p := &l.x
		p.Peers, p.index, p.Send, p.Recv = p.Peers[:0], p.index[:0], p.Send[:0], p.Recv[:0]
		p.Head, p.Heads, p.whole, p.Alike = x.Head, nil, x, x.Alike
		l.waits = false
	}
	m.heads = m.heads[:0]
	for i, peer := range x.Peers {
		m.heads = append(m.heads, nil)
		p := &m.lanes[m.of[peer]].x
		if len(p.Peers) == 0 {
			open++
		}
		p.Peers, p.index = append(p.Peers, peer), append(p.index, i)
		p.Send = append(p.Send, of(x.Send, i))
		p.Recv = append(p.Recv, of(x.Recv, i))
	}
	return open
}

func of(bufs [][][]byte, i int) [][]byte {
	if i < len(bufs) {
		return bufs[i]
	}
	return nil
}

// judge gives the verdict to the lanes waiting for it, so that they continue.
func (m *mix) judge(x *Exchange, verdict error) {
	for _, l := range m.lanes {
		if !l.waits {
			continue
		}
		for k, i := range l.x.index { // Heads may have set Recv
			l.x.Recv[k] = of(x.Recv, i)
		}
		l.waits = false
		l.heard <- verdict
	}
}

// Close implements Link.
func (m *mix) Close() error {
	m.once.Do(func() {
		var errs []error
		for _, l := range m.lanes {
			errs = append(errs, l.link.Close())
		}
		close(m.closed)
		m.running.Wait()
		m.err = errors.Join(errs...)
	})
	return m.err
}
