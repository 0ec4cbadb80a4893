package jaccltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
	"unsafe"

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

// SharedLinks returns links like Links, between ranks that also share memory.
func SharedLinks(n int) []link.Shared {
	memories := make([]*region, n)
	links := make([]link.Shared, n)
	for i, l := range newLinks(n) {
		memories[i] = &region{}
		links[i] = &sharedLink{l, memories}
	}
	return links
}

// sharedLink is a link with the memory of all ranks.
type sharedLink struct {
	*wired
	memories []*region
}

// region is the shared memory of a rank: pieces at ascending offsets, with gaps between them.
type region struct {
	mu     sync.Mutex
	pieces []piece
	next   int64
}

type piece struct {
	at int64
	b  []byte
}

const page = 4096

func (l *sharedLink) Alloc(n int) ([]byte, error) {
	if n < 0 {
		return nil, fmt.Errorf("jaccltest: alloc: %d bytes, want 0 or more", n)
	}
	select {
	case <-l.closed:
		return nil, errors.New("jaccltest: alloc: the link is closed")
	default:
	}
	b := make([]byte, n+page)
	skip := (page - int(uintptr(unsafe.Pointer(&b[0]))%page)) % page
	b = b[skip:][:n:n]
	r := l.memories[l.rank]
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pieces = append(r.pieces, piece{r.next, b})
	r.next += int64(n+2*page-1) / page * page
	return b, nil
}

// Lease is Alloc. release does nothing: the garbage collector frees the memory.
func (l *sharedLink) Lease(n int) ([]byte, func() error, error) {
	b, err := l.Alloc(n)
	return b, func() error { return nil }, err
}

func (l *sharedLink) Locate(b []byte) (int64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	r := l.memories[l.rank]
	r.mu.Lock()
	defer r.mu.Unlock()
	at := uintptr(unsafe.Pointer(&b[0]))
	for _, p := range r.pieces {
		if len(p.b) == 0 {
			continue
		}
		start := uintptr(unsafe.Pointer(&p.b[0]))
		if at >= start && at+uintptr(len(b)) <= start+uintptr(len(p.b)) {
			return p.at + int64(at-start), true
		}
	}
	return 0, false
}

func (l *sharedLink) View(peer int, offset int64, n int) ([]byte, error) {
	if peer < 0 || peer >= len(l.memories) {
		return nil, fmt.Errorf("jaccltest: view: rank %d, want 0 to %d", peer, len(l.memories)-1)
	}
	r := l.memories[peer]
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pieces {
		if n >= 0 && offset >= p.at && offset-p.at <= int64(len(p.b)) && int64(n) <= int64(len(p.b))-(offset-p.at) {
			return p.b[offset-p.at:][:n:n], nil
		}
	}
	return nil, fmt.Errorf("jaccltest: view: %d bytes at %d of rank %d are not its shared memory", n, offset, peer)
}

// Sites returns the sites of n ranks of one process, by rank, for tests of transports. The
// hosts are named host0, host1 and so on, and count as one machine. Connections are TCP over
// loopback.
func Sites(n int) []link.Site {
	m := &meeting{n: n, turns: map[int]*turn{}}
	sites := make([]link.Site, n)
	for i := range sites {
		sites[i] = &site{m: m, rank: i}
	}
	return sites
}

// meeting is shared by the sites: the n-th call of every rank meets the n-th calls of the
// others.
type meeting struct {
	n     int
	mu    sync.Mutex
	turns map[int]*turn
}

type turn struct {
	key  []string
	data [][]byte
	come int
	full chan struct{}
}

type site struct {
	m    *meeting
	rank int
	next int
}

func (s *site) Rank() int              { return s.rank }
func (s *site) Size() int              { return s.m.n }
func (s *site) Host(rank int) string   { return fmt.Sprintf("host%d", rank) }
func (s *site) SameHost(rank int) bool { return true }

func (s *site) Gather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	s.m.mu.Lock()
	t := s.m.turns[s.next]
	if t == nil {
		t = &turn{key: make([]string, s.m.n), data: make([][]byte, s.m.n), full: make(chan struct{})}
		s.m.turns[s.next] = t
	}
	s.next++
	t.key[s.rank], t.data[s.rank] = key, bytes.Clone(mine)
	if t.come++; t.come == s.m.n {
		close(t.full)
	}
	s.m.mu.Unlock()
	select {
	case <-t.full:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for r, k := range t.key {
		if k != t.key[0] {
			return nil, fmt.Errorf("jaccltest: gather: rank %d is at %q and rank 0 at %q", r, k, t.key[0])
		}
	}
	return t.data, nil
}

func (s *site) Dial(ctx context.Context, purpose string) ([]net.Conn, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })() // a rank may not arrive
	addrs, err := s.Gather(ctx, "dial "+purpose, []byte(l.Addr().String()))
	if err != nil {
		return nil, err
	}
	conns := make([]net.Conn, s.m.n)
	for r := range s.rank { // lower ranks listen
		if conns[r], err = new(net.Dialer).DialContext(ctx, "tcp", string(addrs[r])); err != nil {
			return nil, err
		}
		if _, err = conns[r].Write([]byte{byte(s.rank)}); err != nil {
			return nil, err
		}
	}
	for range s.m.n - s.rank - 1 {
		c, err := l.Accept()
		if err != nil {
			return nil, err
		}
		var who [1]byte
		if _, err := c.Read(who[:]); err != nil {
			return nil, err
		}
		conns[who[0]] = c
	}
	return conns, nil
}

// Watches returns the watches of n ranks of one process, by rank, for tests of links. They
// tell all ranks of a failure at once.
func Watches(n int) []link.Watch {
	b := &board{down: make(chan struct{}), left: make([]bool, n), answers: make([]func() link.Waiting, n), hear: make([]func(int, link.Parting), n)}
	ws := make([]link.Watch, n)
	for i := range ws {
		ws[i] = &watch{b, i}
	}
	return ws
}

// board is shared by the watches.
type board struct {
	mu    sync.Mutex
	first *link.Notice
	down  chan struct{}
	left  []bool

	answers []func() link.Waiting     // by rank
	hear    []func(int, link.Parting) // by rank
}

type watch struct {
	b    *board
	rank int
}

func (w *watch) Host(rank int) string { return fmt.Sprintf("host%d", rank) }

func (w *watch) Announce(n link.Notice) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	if w.b.first == nil {
		n.From = w.rank
		w.b.first = &n
		close(w.b.down)
	}
}

func (w *watch) Down() <-chan struct{} { return w.b.down }

func (w *watch) First() (link.Notice, bool) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	if w.b.first == nil {
		return link.Notice{}, false
	}
	return *w.b.first, true
}

func (w *watch) Leave() {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	w.b.left[w.rank] = true
}

func (w *watch) Left(rank int) bool {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	return w.b.left[rank]
}

func (w *watch) Answer(f func() link.Waiting) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	w.b.answers[w.rank] = f
}

func (w *watch) Ask(time.Duration) map[int]link.Waiting {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	all := map[int]link.Waiting{}
	for r, f := range w.b.answers {
		if f != nil && r != w.rank && !w.b.left[r] {
			all[r] = f()
		}
	}
	return all
}

func (w *watch) Hear(f func(from int, p link.Parting)) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	w.b.hear[w.rank] = f
}

func (w *watch) Tell(rank int, p link.Parting) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	if f := w.b.hear[rank]; f != nil { // Tell is called only after all ranks have called Hear
		f(w.rank, p)
	}
}

func (w *watch) Close() error {
	w.Leave()
	return nil
}
