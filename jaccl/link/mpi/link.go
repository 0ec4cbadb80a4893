package mpi

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/gomoe/gomoe/jaccl/link"
)

// The kinds of messages, by tag. A receive takes messages of one kind only. Every link of
// a world has tags of its own, so a late message of one link is not taken for a message
// of another.
const (
	tagHead = iota
	tagData
	tagBye
	tagKinds
)

// maxTag is the largest tag that every MPI has.
const maxTag = 32767

// headMore is the length of the prefix of a head: the number of bytes of data following.
// If a message is longer than its receive, some MPIs write past the buffer (Open MPI 4.1
// within one host), and others truncate the message silently. So nothing is received
// before the lengths have been compared. For exchanges without heads, an earlier head
// gave the length.
const headMore = 8

// byeBytes is the length of a bye: the numbers of messages of the other kinds that its
// sender has sent and received.
const byeBytes = 16

// transport is a link.Link of MPI messages. Each pair of ranks numbers the messages
// between them in the order of posting, which is MPI's order too.
type transport struct {
	w          *World
	rank, size int
	peers      []peer // by rank
	pauser     pauser

	mu      sync.Mutex // held by an Exchange in progress, and by Close
	b       batch
	ends    []done
	heads   [][]byte
	failed  error // why the link can only be closed; nil while it works
	closing atomic.Bool
	closed  bool

	heading, moving int // heads, and messages of data, of the exchange in progress that have not ended
}

// peer is the state of another rank in the link.
type peer struct {
	to       int // rank in MPI's communicator
	out, in  int // added to the tags of messages to the peer and from the peer
	head     []byte
	headLen  int
	follows  uint64 // bytes of data following, as the peer's last head said
	bye      []byte // buffer for the peer's bye
	posted   uint64 // receives that were posted since the link was made
	received uint64 // receives that have ended
	sent     uint64 // sends that have ended
	left     bool   // the peer's bye has arrived
	leftSent uint64 // number of messages sent by the peer, from its bye
}

// Connect returns a link among the ranks of the world. It blocks until all ranks have
// called it. The link is to be closed before the world is.
func Connect(ctx context.Context, w *World) (link.Link, error) {
	w.mu.Lock()
	number := w.links
	w.links++
	w.mu.Unlock()
	if (number+1)*tagKinds > maxTag {
		return nil, fmt.Errorf("mpi: connect: %d links were made in this world, want at most as many", number)
	}
	if _, err := w.Gather(ctx, fmt.Sprintf("mpi link %d", number), nil); err != nil {
		return nil, fmt.Errorf("mpi: connect: %w", err)
	}
	peers := make([]peer, w.size)
	for r := range peers {
		peers[r] = peer{to: r, out: number * tagKinds, in: number * tagKinds}
	}
	return newLink(w, w.rank, peers)
}

// newLink returns the link of a rank. peers holds all ranks, the rank itself included.
func newLink(w *World, rank int, peers []peer) (*transport, error) {
	l := &transport{w: w, rank: rank, size: len(peers), peers: peers, b: batch{l: w.lib}, pauser: w.pauser}
	w.mu.Lock()
	defer w.mu.Unlock()
	for r := range peers {
		p := &peers[r]
		if r == rank {
			continue
		}
		p.head, p.bye = words(headMore+link.MaxHead), words(byeBytes)
		if err := l.receive(request{kind: recvBye, peer: r}, p.bye, tagBye); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *transport) Rank() int         { return l.rank }
func (l *transport) Size() int         { return l.size }
func (l *transport) Transport() string { return "mpi" }

// send posts a message of one buffer. w.mu is held.
func (l *transport) send(r request, b []byte, tag int) error {
	p := &l.peers[r.peer]
	r.keep = append(r.keep, b)
	rc := call(l.w.lib.fn.isend, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(l.w.lib.bytes),
		uintptr(p.to), uintptr(p.out+tag), uintptr(l.w.comm), uintptr(l.b.add(r)))
	return l.post("MPI_Isend", rc)
}

// receive posts the receive of a message into one buffer. w.mu is held.
func (l *transport) receive(r request, b []byte, tag int) error {
	p := &l.peers[r.peer]
	r.keep = append(r.keep, b)
	rc := call(l.w.lib.fn.irecv, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(l.w.lib.bytes),
		uintptr(p.to), uintptr(p.in+tag), uintptr(l.w.comm), uintptr(l.b.add(r)))
	return l.post("MPI_Irecv", rc)
}

// post checks that the last request was accepted.
func (l *transport) post(function string, rc int32) error {
	if rc != 0 {
		l.b.drop()
	}
	return l.w.lib.error(function, rc)
}

// Exchange implements link.Link.
func (l *transport) Exchange(ctx context.Context, x *link.Exchange) error {
	x.Begin()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed || l.closing.Load():
		return errClosed
	case l.failed != nil:
		return fmt.Errorf("mpi: an exchange has failed before: %w", l.failed)
	case len(x.Head) > link.MaxHead:
		return fmt.Errorf("mpi: a head of %d bytes, want at most %d", len(x.Head), link.MaxHead)
	}
	err := l.exchange(ctx, x)
	if err != nil {
		l.failed = err
		l.abandon()
	}
	return err
}

func (l *transport) exchange(ctx context.Context, x *link.Exchange) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.heading, l.moving = 0, 0
	if err := l.begin(x); err != nil {
		return err
	}
	judged := x.Head == nil
	l.pauser.Begin()
	for {
		if l.heading == 0 && !judged {
			judged = true
			if err := l.judge(x); err != nil {
				return err
			}
		}
		if l.heading == 0 && l.moving == 0 {
			return nil
		}
		progress, err := l.advance(x)
		if err != nil {
			return err
		}
		if progress {
			l.pauser.Moved()
			continue
		}
		if err := l.deserted(x); err != nil {
			return err
		}
		if l.closing.Load() {
			return errClosed
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		l.pauser.pause(l.heading == 0)
	}
}

// begin posts everything that does not depend on the peers' heads: the heads and the data
// to send. If there are no heads, it posts the receives of data first, so that the data
// finds its buffers on arrival.
func (l *transport) begin(x *link.Exchange) error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if x.Head == nil {
		if err := l.expect(x); err != nil {
			return err
		}
	} else {
		for i, r := range x.Peers {
			follows := 0
			if i < len(x.Send) {
				follows = total(x.Send[i])
			}
			head := binary.NativeEndian.AppendUint64(words(headMore + len(x.Head))[:0], uint64(follows))
			head = append(head, x.Head...)
			p := &l.peers[r]
			if err := l.receive(request{kind: recvHead, peer: r, i: i}, p.head, tagHead); err != nil {
				return err
			}
			p.posted++
			if err := l.send(request{kind: sendHead, peer: r, i: i}, head, tagHead); err != nil {
				return err
			}
			l.heading += 2
		}
	}
	for i, r := range x.Peers {
		if i >= len(x.Send) {
			break
		}
		for _, m := range messages(x.Send[i]) {
			if err := l.postData(m, request{kind: sendData, peer: r, i: i}); err != nil {
				return err
			}
		}
	}
	return nil
}

// judge calls x.Heads, and then posts the receives of data.
func (l *transport) judge(x *link.Exchange) error {
	l.heads = l.heads[:0]
	for _, r := range x.Peers {
		l.heads = append(l.heads, l.peers[r].head[headMore:][:l.peers[r].headLen])
	}
	if err := x.Heads(l.heads); err != nil {
		return err
	}
	for i, r := range x.Peers {
		expected := 0
		if i < len(x.Recv) {
			expected = total(x.Recv[i])
		}
		if l.peers[r].follows != uint64(expected) {
			return fmt.Errorf("mpi: rank %d sends %d bytes where rank %d expects %d", r, l.peers[r].follows, l.rank, expected)
		}
	}
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.expect(x)
}

func total(bufs [][]byte) int {
	n := 0
	for _, b := range bufs {
		n += len(b)
	}
	return n
}

// expect posts the receives of data. w.mu is held.
func (l *transport) expect(x *link.Exchange) error {
	for i, r := range x.Peers {
		if i >= len(x.Recv) {
			break
		}
		for _, m := range messages(x.Recv[i]) {
			if err := l.postData(m, request{kind: recvData, peer: r, i: i}); err != nil {
				return err
			}
			l.peers[r].posted++
		}
	}
	return nil
}

// advance lets MPI make progress, noting the requests that have ended. progress reports
// whether any has.
func (l *transport) advance(x *link.Exchange) (progress bool, err error) {
	l.w.mu.Lock()
	l.ends, err = l.b.test(l.ends[:0])
	l.w.mu.Unlock()
	if err != nil {
		return false, err
	}
	for _, d := range l.ends {
		if err := l.note(x, d); err != nil {
			return false, err
		}
	}
	return len(l.ends) > 0, nil
}

// note accounts for a request that has ended. x is nil outside an exchange.
func (l *transport) note(x *link.Exchange, d done) error {
	p := &l.peers[d.peer]
	if d.code != 0 {
		return &link.PeerError{Peer: d.peer, Err: l.w.lib.error("a message with rank "+fmt.Sprint(d.peer), d.code)}
	}
	switch d.kind {
	case sendHead:
		l.heading--
		p.sent++
	case recvHead:
		l.heading--
		p.received++
		if d.count < headMore {
			return fmt.Errorf("mpi: rank %d sent a head of %d bytes, want at least %d", d.peer, d.count, headMore)
		}
		p.headLen, p.follows = int(d.count)-headMore, binary.NativeEndian.Uint64(p.head)
		if x != nil {
			x.Came(d.i)
		}
	case sendData:
		l.moving--
		p.sent++
		if x != nil {
			x.Sent(d.i, d.bytes)
		}
	case recvData:
		l.moving--
		p.received++
		if int(d.count) != d.bytes {
			return fmt.Errorf("mpi: rank %d sent a message of %d bytes where %d were expected", d.peer, d.count, d.bytes)
		}
		if x != nil {
			x.Received(d.i, d.bytes)
		}
	case recvBye:
		if d.count != byeBytes {
			return fmt.Errorf("mpi: rank %d sent a farewell of %d bytes, want %d", d.peer, d.count, byeBytes)
		}
		p.left, p.leftSent = true, binary.NativeEndian.Uint64(p.bye)
	}
	return nil
}

// deserted returns an error if a peer has closed its link and the exchange still has to
// send to it, or to receive data that it never sent. Data sent by the peer before closing
// is still received.
func (l *transport) deserted(x *link.Exchange) error {
	for _, r := range x.Peers {
		p := &l.peers[r]
		if !p.left {
			continue
		}
		sending := false
		for _, o := range l.b.what {
			sending = sending || o.peer == r && (o.kind == sendHead || o.kind == sendData)
		}
		if sending || p.posted > p.leftSent {
			return &link.PeerError{Peer: r, Err: errors.New("mpi: it has closed its link")}
		}
	}
	return nil
}

// giveUp is the time that MPI gets to cancel the requests of a failed exchange, and to
// send a farewell. The memory of requests that are not cancelled by then stays MPI's.
const giveUp = 100 * time.Millisecond

// abandon cancels the exchange's requests as far as MPI allows.
func (l *transport) abandon() {
	l.w.mu.Lock()
	l.b.cancel(func(r request) bool { return r.kind != recvBye })
	l.w.mu.Unlock()
	l.settle(func(r request) bool { return r.kind != recvBye })
}

// settle polls until no request matches, for giveUp at most.
func (l *transport) settle(match func(request) bool) {
	for end := time.Now().Add(giveUp); ; {
		open := false
		for _, r := range l.b.what {
			open = open || match(r)
		}
		if !open || time.Now().After(end) {
			return
		}
		if progress, err := l.advance(nil); err != nil {
			l.failed = err // other endings do not matter
		} else if !progress {
			l.pauser.pause(true)
		}
	}
}

// Close implements link.Link. Peers learn of it by a message.
func (l *transport) Close() error {
	l.closing.Store(true) // an Exchange that polls leaves
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	var err error
	l.w.mu.Lock()
	for r := range l.peers {
		p := &l.peers[r]
		if r == l.rank || l.w.closed {
			continue
		}
		bye := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(words(byeBytes)[:0], p.sent), p.received)
		if e := l.send(request{kind: sendBye, peer: r}, bye, tagBye); err == nil {
			err = e
		}
	}
	gone := l.w.closed
	l.w.mu.Unlock()
	if gone {
		return err
	}
	l.settle(func(r request) bool { return r.kind != recvBye })
	l.w.part(l)
	return err
}

// farewells receives the farewells that have been sent, and cancels the receives of the
// others.
func (l *transport) farewells() {
	all := func(request) bool { return true }
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settle(all); len(l.b.what) > 0 {
		l.w.mu.Lock()
		l.b.cancel(all)
		l.w.mu.Unlock()
		l.settle(all)
	}
}
