package verbs

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomoe/gomoe/internal/wait"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/rdma"
)

// Link is a link.Link over RDMA verbs, with a queue pair for every peer and wire. Heads
// go over the first wire; data of rdma.MultiWire bytes and more for a peer is divided
// among all wires, and each wire then treats its share as all of the data. A head begins
// in a frame of its own, after its length as 4 bytes, little-endian; the rest follows in
// messages of the class selected by its length. The data for a peer then follows in
// messages of its class: all data together, or buffer by buffer if both sides cut alike.
// The last message ends with the data: no padding is sent, so a message may be anywhere
// in registered memory.
type Link struct {
	rank, size int
	lib        *rdma.Library
	settings   rdma.Settings
	limits     rdma.Limits      // of this rank's devices
	row        []string         // this rank's devices, like eps
	eps        []*rdma.Endpoint // by rank, nil for this one, on the first wire, then on the second, and so on
	adapters   rdma.Adapters    // the adapters of the endpoints

	mu      sync.Mutex            // held by an exchange and by Close
	broken  atomic.Pointer[error] // why the link can only be closed; nil while it works
	closing atomic.Bool
	x       exchange
	pace    wait.Waiter

	giving  sync.Mutex // guards the following fields; a caller that also needs mu takes mu first
	closed  bool
	span    uintptr // see maxSpan
	arenas  []*lot  // lots of Alloc, which are released with the link
	free    []*lot  // lots of ended leases, the one that ended first in front
	regions int     // memory regions of every device used by all lots
}

var _ link.Link = (*Link)(nil)

// Rank implements link.Link.
func (l *Link) Rank() int { return l.rank }

// Size implements link.Link.
func (l *Link) Size() int { return l.size }

// Transport implements link.Link.
func (l *Link) Transport() string { return "verbs" }

// Service returns the kind of the job's queue pairs, RC or UC.
func (l *Link) Service() rdma.Service {
	for _, e := range l.eps {
		if e != nil {
			return e.Service
		}
	}
	return l.settings.Service
}

// usable returns why the link cannot be used, nil if it can.
func (l *Link) usable() error {
	if l.closing.Load() {
		return fmt.Errorf("rdma: link of rank %d: %w", l.rank, net.ErrClosed)
	}
	if err := l.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// Exchange implements link.Link.
func (l *Link) Exchange(ctx context.Context, x *link.Exchange) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	x.Begin()
	if err := l.usable(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := l.x.begin(l, x); err != nil {
		return err
	}
	err := rdma.Drive(ctx, &l.pace, l.x.eps, &l.x)
	for _, e := range l.x.eps {
		if err == nil {
			e.Sending.Reset()
			e.Receiving.Reset()
		}
	}
	l.x.end()
	if err != nil {
		why := err // err itself would be allocated in every exchange
		l.broken.CompareAndSwap(nil, &why)
	}
	return err
}

// Close implements link.Link.
func (l *Link) Close() error {
	l.closing.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giving.Lock()
	defer l.giving.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	for _, e := range l.eps {
		if e != nil {
			e.Close()
		}
	}
	l.adapters.Close()
	for _, a := range slices.Concat(l.arenas, l.free) { // nothing is received into them any more
		a.r.Close()
	}
	l.arenas, l.free = nil, nil
	return nil
}

// exchange is the state of an Exchange.
type exchange struct {
	l       *Link
	x       *link.Exchange
	eps     []*rdma.Endpoint // endpoints of x.Peers, on the first wire, then on the second, and so on
	parts   [2][]part        // the parts that are sent, and those that are received, by endpoint
	peers   []headState
	heads   [][]byte
	missing int  // heads not arrived yet
	decided bool // Heads has been called, or there are no heads
	out     [2][]byte
	sendOut [2][][]byte
	first   []byte // this rank's first frame
}

// headState is the part of a peer's head that has been received.
type headState struct {
	buf   []byte // 4 bytes of length and the head, in whole frames
	size  int    // bytes of the head; -1 before it is known
	state [1][]byte
	rest  [1][]byte
	come  bool
}

const lengthSize = 4

// headFrames is the largest number of frames in a head.
const headFrames = link.MaxHead / rdma.Frame

// begin makes the flows that can be made before any head has arrived.
func (s *exchange) begin(l *Link, x *link.Exchange) error {
	bad := func(format string, a ...any) error { return fmt.Errorf("rdma: exchange: "+format, a...) }
	if len(x.Head) > link.MaxHead {
		return bad("head of %d bytes, want at most %d", len(x.Head), link.MaxHead)
	}
	s.l, s.x = l, x
	s.eps = s.eps[:0]
	for i, p := range x.Peers {
		if p < 0 || p >= l.size || p == l.rank || i > 0 && p <= x.Peers[i-1] {
			return bad("peers %v of rank %d of %d, want others, ascending", x.Peers, l.rank, l.size)
		}
	}
	for w := range len(l.eps) / l.size {
		for _, p := range x.Peers {
			s.eps = append(s.eps, l.eps[w*l.size+p])
		}
	}
	for i := range s.parts {
		for len(s.parts[i]) < len(s.eps) {
			s.parts[i] = append(s.parts[i], nil)
		}
	}
	s.heads = slices.Grow(s.heads[:0], len(x.Peers))[:len(x.Peers)]
	s.peers = slices.Grow(s.peers[:0], len(x.Peers))[:len(x.Peers)]
	s.missing, s.decided = len(x.Peers), false
	if x.Head != nil {
		s.first = append(binary.LittleEndian.AppendUint32(s.first[:0], uint32(len(x.Head))), x.Head...)
		cut := min(len(s.first), rdma.Frame)
		s.out = [2][]byte{s.first[:cut], s.first[cut:]}
		for i, e := range s.eps[:len(x.Peers)] {
			h := &s.peers[i]
			if h.buf == nil {
				h.buf = make([]byte, (headFrames+1)*rdma.Frame)
			}
			h.size, h.come = -1, false
			h.state[0] = h.buf[:rdma.Frame]
			e.Receiving.Add(rdma.Head, h.state[:], 0)
			e.Sending.Add(rdma.Head, s.out[:1], 0)
			e.Sending.Add(rdma.Head, s.out[1:], rdma.ClassOf(len(s.out[1])))
		}
	}
	for i, e := range s.eps {
		if peer := i % len(x.Peers); peer < len(x.Send) {
			s.over(&e.Sending, x.Send[peer], i, &s.parts[0][i])
		}
	}
	return nil
}

func (s *exchange) end() {
	s.x, s.out = nil, [2][]byte{}
	clear(s.heads)
}

func (s *exchange) Moved(i, sent, received int) {
	i %= len(s.x.Peers) // an endpoint of any wire
	if sent > 0 {
		s.x.Sent(i, sent)
	}
	if received > 0 {
		s.x.Received(i, received)
	}
}

// Step handles arrived heads. Once all have arrived, it starts to receive data.
func (s *exchange) Step() (bool, error) {
	if !s.decided {
		if s.x.Head != nil {
			if err := s.look(); err != nil {
				return false, err
			}
			if s.missing > 0 || !s.told() {
				return false, nil
			}
			if s.x.Heads != nil {
				if err := s.x.Heads(s.heads); err != nil {
					return false, err
				}
			}
		}
		s.decided = true
		for i, e := range s.eps {
			n := len(s.x.Peers)
			if i%n >= len(s.x.Recv) {
				continue
			}
			s.over(&e.Receiving, s.x.Recv[i%n], i, &s.parts[1][i])
			if err := e.Refill(); err != nil {
				return false, &link.PeerError{Peer: e.Peer, Err: err}
			}
		}
	}
	for _, e := range s.eps {
		if !e.Idle() {
			return false, nil
		}
	}
	return true, nil
}

// told reports whether this rank's head has been sent. An exchange waits for that even if
// Heads refuses the peers' heads, so that the peers reach the same verdict. The wait
// ends, because the peers take part in the exchange.
func (s *exchange) told() bool {
	for _, e := range s.eps[:len(s.x.Peers)] {
		if !e.Sending.Left(rdma.Head) {
			return false
		}
	}
	return true
}

// look reads the lengths of heads with an arrived first frame, and counts complete heads.
func (s *exchange) look() error {
	for i, e := range s.eps[:len(s.x.Peers)] {
		h := &s.peers[i]
		if h.come || !e.Receiving.Idle() {
			continue
		}
		if h.size < 0 {
			n := binary.LittleEndian.Uint32(h.buf)
			if n > link.MaxHead {
				return &link.PeerError{Peer: e.Peer, Err: fmt.Errorf("rdma: rank %d announces a head of %d bytes, want at most %d: it is not at the same exchange, or no rank of this program", e.Peer, n, link.MaxHead)}
			}
			h.size = int(n)
			if lengthSize+h.size > rdma.Frame {
				h.rest[0] = h.buf[rdma.Frame : lengthSize+h.size]
				e.Receiving.Add(rdma.Head, h.rest[:], rdma.ClassOf(len(h.rest[0])))
				if err := e.Refill(); err != nil {
					return &link.PeerError{Peer: e.Peer, Err: err}
				}
				continue
			}
		}
		h.come = true
		s.heads[i] = h.buf[lengthSize:][:h.size]
		s.missing--
		s.x.Came(i)
	}
	return nil
}

func (s *exchange) Alive(waited time.Duration) error {
	if s.l.closing.Load() {
		return fmt.Errorf("rdma: link of rank %d: %w", s.l.rank, net.ErrClosed)
	}
	if waited < rdma.Grace {
		return nil
	}
	for i, e := range s.eps {
		if !e.Idle() && s.x.Gone(i%len(s.x.Peers)) {
			return &link.PeerError{Peer: e.Peer, Err: fmt.Errorf("rdma: rank %d has closed its link", e.Peer)}
		}
	}
	return nil
}

// part is one wire's share of the data of one peer in one direction: pieces of the
// caller's buffers. Its memory is reused in the next exchange.
type part [][]byte

// over adds to lane l the part of the data in buffers that goes over the wire of endpoint i.
// Data of less than rdma.MultiWire bytes goes over the first wire; more data is divided among
// the wires in whole frames. Both ends know the number of bytes, so that they divide the data
// alike.
func (s *exchange) over(l *rdma.Lane, buffers [][]byte, i int, p *part) {
	w, wires := i/len(s.x.Peers), len(s.eps)/len(s.x.Peers)
	n := 0
	for _, b := range buffers {
		n += len(b)
	}
	if wires == 1 || n < rdma.MultiWire {
		if w == 0 {
			s.add(l, buffers, n)
		}
		return
	}
	begin, end := rdma.Share((n+rdma.Frame-1)/rdma.Frame, w, wires)
	begin, end = begin*rdma.Frame, min(n, end*rdma.Frame)
	*p = (*p)[:0]
	at := 0
	for _, b := range buffers {
		from, to := max(begin-at, 0), min(end-at, len(b))
		if from < to {
			*p = append(*p, b[from:to])
		}
		at += len(b)
	}
	s.add(l, *p, end-begin)
}

// add adds n bytes of data to a lane.
func (s *exchange) add(l *rdma.Lane, buffers [][]byte, n int) {
	if s.l.settings.Whole {
		l.Add(rdma.Data, buffers, rdma.ClassOf(n))
	} else {
		l.AddData(buffers, s.x.Alike)
	}
}
