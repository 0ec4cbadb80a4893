package jaccltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/gomoe/gomoe/jaccl/link"
)

// Links returns the links of n ranks of one process, by rank, for tests of code using
// links. Like the buffers of a connection, they hold some bytes for a peer that has not
// begun to receive.
func Links(n int) []link.Link {
	links := make([]link.Link, n)
	for i, l := range newLinks(n) {
		links[i] = l
	}
	return links
}

func newLinks(n int) []*wired {
	links := make([]*wired, n)
	for i := range links {
		links[i] = &wired{rank: i, size: n, closed: make(chan struct{}), dead: make(chan struct{}), halves: make([]half, n)}
	}
	for _, l := range links {
		for peer := range n {
			if peer == l.rank {
				continue
			}
			p := &pipe{full: make(chan []byte, pipeDepth), free: make(chan []byte, pipeDepth), closed: l.closed}
			for range pipeDepth {
				p.free <- make([]byte, 0, link.MaxHead)
			}
			l.halves[peer].out, links[peer].halves[l.rank].in = p, p
		}
	}
	for _, l := range links {
		l.start()
	}
	return links
}

// pipeDepth is the number of pieces that a pipe holds.
const pipeDepth = 2

// pipe carries bytes from one rank to another, in pieces of its own memory.
type pipe struct {
	full, free chan []byte
	closed     <-chan struct{} // closed when the sender closes its link
}

// half is the connection of a link to one peer.
type half struct {
	out, in         *pipe
	sends, receives chan work     // for the goroutines sending and receive
	heard           chan struct{} // signals that Heads has returned, so that data may be received
}

// work is the work of a half in one exchange.
type work struct {
	ctx  context.Context
	x    *link.Exchange
	i    int // the peer's index in x.Peers
	head bool
}

// wired is a link of Links. It implements link.Link.
type wired struct {
	rank, size int
	halves     []half
	closed     chan struct{}
	dead       chan struct{} // closed by the first error
	once, over sync.Once
	running    sync.WaitGroup

	came    chan came
	results chan error
	heads   [][]byte
}

// came is the head of peer i of the exchange in progress.
type came struct {
	i int
	b []byte
}

func (l *wired) start() {
	l.came, l.results = make(chan came, l.size), make(chan error, 2*l.size)
	for peer := range l.halves {
		h := &l.halves[peer]
		if peer == l.rank {
			continue
		}
		h.sends, h.receives, h.heard = make(chan work, 1), make(chan work, 1), make(chan struct{}, 1)
		l.running.Go(func() { l.loop(h.sends, func(w work) error { return l.send(peer, w) }) })
		l.running.Go(func() { l.loop(h.receives, func(w work) error { return l.receive(peer, w) }) })
	}
}

func (l *wired) loop(works <-chan work, do func(work) error) {
	for {
		select {
		case w := <-works:
			l.results <- do(w)
		case <-l.closed:
			return
		}
	}
}

func (l *wired) Rank() int         { return l.rank }
func (l *wired) Size() int         { return l.size }
func (l *wired) Transport() string { return "memory" }

func (l *wired) Exchange(ctx context.Context, x *link.Exchange) error {
	x.Begin()
	select {
	case <-l.closed:
		return errors.New("jaccltest: the link is closed")
	case <-l.dead:
		return errors.New("jaccltest: an exchange has failed before")
	default:
	}
	if ctx.Err() != nil {
		l.die()
		return context.Cause(ctx)
	}
	if len(x.Head) > link.MaxHead {
		return fmt.Errorf("jaccltest: a head of %d bytes, want at most %d", len(x.Head), link.MaxHead)
	}
	for i, peer := range x.Peers {
		w := work{ctx, x, i, x.Head != nil}
		l.halves[peer].sends <- w
		l.halves[peer].receives <- w
	}
	var first error
	open := 2 * len(x.Peers)
	note := func(err error) {
		if err != nil && first == nil {
			first = err
			l.die()
		}
	}
	if x.Head != nil {
		l.heads = l.heads[:0]
		for range x.Peers {
			l.heads = append(l.heads, nil)
		}
		for waiting := len(x.Peers); waiting > 0 && first == nil; {
			select {
			case c := <-l.came:
				l.heads[c.i] = c.b
				waiting--
			case err := <-l.results:
				note(err)
				open--
			}
		}
		if first == nil {
			note(x.Heads(l.heads))
		}
		if first == nil {
			for _, peer := range x.Peers {
				l.halves[peer].heard <- struct{}{}
			}
		}
	}
	for ; open > 0; open-- {
		note(<-l.results)
	}
	return first
}

// die ends the exchange in progress.
func (l *wired) die() { l.over.Do(func() { close(l.dead) }) }

func (l *wired) send(peer int, w work) error {
	p := l.halves[peer].out
	if w.head {
		if err := l.put(peer, p, w, w.x.Head); err != nil {
			return err
		}
	}
	if w.i >= len(w.x.Send) {
		return nil
	}
	for _, b := range w.x.Send[w.i] {
		for len(b) > 0 {
			n := min(len(b), link.MaxHead)
			if err := l.put(peer, p, w, b[:n]); err != nil {
				return err
			}
			w.x.Sent(w.i, n)
			b = b[n:]
		}
	}
	return nil
}

func (l *wired) put(peer int, p *pipe, w work, b []byte) error {
	select { // a head is sent even if this rank has already refused the others' heads
	case piece := <-p.free:
		p.full <- append(piece[:0], b...)
		return nil
	default:
	}
	select {
	case piece := <-p.free:
		p.full <- append(piece[:0], b...)
		return nil
	case <-l.halves[peer].in.closed:
		return &link.PeerError{Peer: peer, Err: io.ErrClosedPipe}
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	case <-l.dead:
		return errors.New("jaccltest: the exchange has failed")
	case <-l.closed:
		return errors.New("jaccltest: the link is closed")
	}
}

// get returns the next piece. The caller puts it back into p.free.
func (l *wired) get(peer int, p *pipe, w work) ([]byte, error) {
	select {
	case b := <-p.full:
		return b, nil
	default:
	}
	select {
	case b := <-p.full:
		return b, nil
	case <-p.closed:
		select { // data that the peer sent before closing
		case b := <-p.full:
			return b, nil
		default:
			return nil, &link.PeerError{Peer: peer, Err: io.EOF}
		}
	case <-w.ctx.Done():
		return nil, context.Cause(w.ctx)
	case <-l.dead:
		return nil, errors.New("jaccltest: the exchange has failed")
	case <-l.closed:
		return nil, errors.New("jaccltest: the link is closed")
	}
}

func (l *wired) receive(peer int, w work) error {
	p := l.halves[peer].in
	if w.head {
		b, err := l.get(peer, p, w)
		if err != nil {
			return err
		}
		w.x.Came(w.i)
		l.came <- came{w.i, b}
		select {
		case <-l.halves[peer].heard:
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		case <-l.dead:
			return errors.New("jaccltest: the exchange has failed")
		case <-l.closed:
			return errors.New("jaccltest: the link is closed")
		}
		p.free <- b
	}
	if w.i >= len(w.x.Recv) {
		return nil
	}
	var piece, rest []byte
	for _, b := range w.x.Recv[w.i] {
		for len(b) > 0 {
			if len(rest) == 0 {
				var err error
				if piece, err = l.get(peer, p, w); err != nil {
					return err
				}
				rest = piece
			}
			n := copy(b, rest)
			b, rest = b[n:], rest[n:]
			w.x.Received(w.i, n)
			if len(rest) == 0 {
				p.free <- piece
			}
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("jaccltest: rank %d sends %d bytes more than rank %d expects", peer, len(rest), l.rank)
	}
	return nil
}

func (l *wired) Close() error {
	l.once.Do(func() { close(l.closed) })
	l.running.Wait()
	return nil
}
