//go:build linux || darwin

package shm

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/gomoe/gomoe/internal/wait"
	"github.com/gomoe/gomoe/jaccl/link"
)

// sender is the sending half of exchanges with a peer.
type sender struct {
	ring producer
	read uint64 // bytes of this rank's arena that the peer was told to read since the link began

	// Of the exchange in progress.
	front []byte   // records with their bodies, still to be put
	space []byte   // the array of front, kept for the next exchange
	parts [][]byte // data still to be put; nil if the peer reads it in the arena
	done  int      // bytes of parts[0] that have been put
	seen  uint64   // the part of read that the peer has read
}

// begin queues the head and the data of exchange seq for the peer.
func (s *sender) begin(l *transport, seq uint64, head []byte, parts [][]byte) {
	s.space = s.space[:0]
	if head != nil {
		s.space = appendRecord(s.space, record{kind: kindHead, seq: seq, bytes: uint64(len(head))}, head, l.table)
	}
	s.parts, s.done = nil, 0
	if total := sum(parts); total > 0 {
		r := record{kind: kindData, seq: seq, bytes: total}
		if places := l.placesOf(parts, total); places != nil {
			r.kind, r.places = kindView, uint64(len(places)/placeBytes)
			s.read += total
			s.space = appendRecord(s.space, r, places, l.table)
		} else {
			s.parts = parts
			s.space = appendRecord(s.space, r, nil, l.table)
		}
	}
	s.front = s.space
}

// finished reports whether everything has been sent, so that the peer no longer needs the
// caller's buffers.
func (s *sender) finished() bool {
	return len(s.front) == 0 && len(s.parts) == 0 && s.seen == s.read
}

// step puts the rest of the records, and then up to chunk bytes of data, into the ring
// and publishes them to the peer. It reports whether it has put anything, recording the
// bytes of data in x.
func (s *sender) step(x *link.Exchange, i int, chunk int) (bool, error) {
	for len(s.front) > 0 {
		n, err := s.ring.put(s.front)
		if err != nil {
			return false, err
		}
		if s.front = s.front[n:]; n == 0 {
			break
		}
	}
	if len(s.front) == 0 {
		sent := 0
		for sent < chunk && len(s.parts) > 0 {
			p := s.parts[0][s.done:]
			n, err := s.ring.put(p[:min(len(p), chunk-sent)])
			if err != nil {
				return false, err
			}
			sent += n
			if s.done += n; s.done == len(s.parts[0]) {
				s.parts, s.done = s.parts[1:], 0
			} else if n == 0 {
				break
			}
		}
		if sent > 0 {
			x.Sent(i, sent)
		}
	}
	moved := s.ring.show()
	return moved, nil
}

// account records in x the amount of data in this rank's arena that the peer has read.
func (s *sender) account(x *link.Exchange, i int, read uint64) (bool, error) {
	if read == s.seen {
		return false, nil
	}
	if read-s.seen > s.read-s.seen {
		return false, fmt.Errorf("has read %d bytes of the %d it was given", read, s.read)
	}
	x.Sent(i, int(read-s.seen))
	s.seen = read
	return true, nil
}

// placesOf returns the body of a record of kindView. It returns nil if the data has to go
// through the ring: if some of it is not in the arena, if it is little data, or if it is in
// too many places.
func (l *transport) placesOf(parts [][]byte, total uint64) []byte {
	if total < viewFrom {
		return nil
	}
	l.places = l.places[:0]
	for _, p := range parts {
		if len(p) == 0 {
			continue
		}
		at, ok := l.Locate(p)
		if !ok || len(l.places) == placeBytes*maxPlaces {
			return nil
		}
		l.places = binary.LittleEndian.AppendUint64(l.places, uint64(at))
		l.places = binary.LittleEndian.AppendUint64(l.places, uint64(len(p)))
	}
	return l.places
}

// sum returns the number of bytes of parts.
func sum(parts [][]byte) uint64 {
	n := uint64(0)
	for _, p := range parts {
		n += uint64(len(p))
	}
	return n
}

// stage is the next part expected by a receiver.
type stage uint8

const (
	stageHead  stage = iota // a head and its record
	stageHeads              // the heads of the other peers
	stageData               // the record of the data, with places
	stageRing               // data from the ring
	stageView               // data from the peer's arena
	stageDone               // nothing: all has arrived
)

// receiver is the receiving half of exchanges with a peer.
type receiver struct {
	ring consumer
	read uint64 // bytes read from the peer's arena since the link began

	// Of the exchange in progress.
	stage  stage
	seq    uint64
	buf    []byte // the bytes received of a record and its body
	need   int    // the final length of buf; recordBytes until the record is known
	record record
	head   []byte   // the peer's head, in buf
	parts  [][]byte // the buffers that are still to be filled
	done   int      // bytes received of parts[0]
	places []place  // the places that are still to be read
	space  []place  // the array of places, kept for the next exchange
}

func (r *receiver) begin(seq uint64, head bool) {
	r.seq, r.stage = seq, stageHead
	r.buf, r.need = r.buf[:0], recordBytes
	r.head, r.parts, r.done = nil, nil, 0
	if !head {
		r.stage = stageHeads
	}
}

// expect sets the buffers for the data. It is called when all heads have arrived.
func (r *receiver) expect(parts [][]byte) {
	r.parts, r.done = parts, 0
	r.buf, r.need = r.buf[:0], recordBytes
	r.stage = stageData
	if r.skip(); len(r.parts) == 0 {
		r.stage = stageDone
	}
}

// skip advances to the next buffer that is not full.
func (r *receiver) skip() {
	for len(r.parts) > 0 && r.done == len(r.parts[0]) {
		r.parts, r.done = r.parts[1:], 0
	}
}

// step receives available data, up to chunk bytes from the ring or one piece from the
// peer's arena. It reports whether anything has arrived, recording the head and the bytes
// of data in x.
func (r *receiver) step(l *transport, from *segment, x *link.Exchange, i, chunk int) (bool, error) {
	moved := false
	if r.stage == stageHead || r.stage == stageData {
		got, err := r.fill(l)
		if err != nil || !got {
			return r.ring.release(), err
		}
		if r.stage == stageHead {
			r.head = r.buf[recordBytes:]
			r.stage = stageHeads
			x.Came(i)
		} else if err := r.open(); err != nil {
			return false, err
		}
		moved = true
	}
	var n int
	var err error
	switch r.stage {
	case stageRing:
		n, err = r.fromRing(chunk)
	case stageView:
		n, err = r.fromArena(from)
	}
	if err != nil {
		return false, err
	}
	if n > 0 {
		x.Received(i, n)
		if len(r.parts) == 0 {
			r.stage = stageDone
		}
	}
	return r.ring.release() || moved || n > 0, nil
}

// fill reads more of a record and its body into buf, reporting whether they are complete.
// A wrong checksum is an error.
func (r *receiver) fill(l *transport) (bool, error) {
	for len(r.buf) < r.need {
		have := len(r.buf)
		if cap(r.buf) < r.need {
			r.buf = append(make([]byte, 0, r.need), r.buf...)
		}
		n, err := r.ring.take(r.buf[have:r.need])
		if err != nil {
			return false, err
		}
		r.buf = r.buf[:have+n]
		if len(r.buf) < r.need {
			return false, nil
		}
		if r.need == recordBytes {
			if r.record, err = parseRecord(r.buf, r.stage == stageHead, r.seq); err != nil {
				return false, err
			}
			r.need += r.record.body()
		}
	}
	return true, checkSum(r.record, r.buf, l.table)
}

// open prepares to receive the data announced by the record.
func (r *receiver) open() error {
	want := sum(r.parts) - uint64(r.done)
	if r.record.bytes != want {
		return fmt.Errorf("sends %d bytes in exchange %d, want %d", r.record.bytes, r.seq, want)
	}
	if r.record.kind == kindData {
		r.stage = stageRing
		return nil
	}
	r.stage = stageView
	var err error
	r.space, err = appendPlaces(r.space[:0], r.buf[recordBytes:], want)
	r.places = r.space
	return err
}

func (r *receiver) fromRing(chunk int) (int, error) {
	got := 0
	for got < chunk && len(r.parts) > 0 {
		b := r.parts[0][r.done:]
		n, err := r.ring.take(b[:min(len(b), chunk-got)])
		if err != nil {
			return 0, err
		}
		if n == 0 {
			break
		}
		got += n
		r.done += n
		r.skip()
	}
	return got, nil
}

// fromArena copies one piece from the peer's arena.
func (r *receiver) fromArena(from *segment) (int, error) {
	at := &r.places[0]
	b := r.parts[0][r.done:]
	turn := uint64(piece)
	if r.record.bytes >= longFrom {
		turn = longPiece
	}
	b = b[:min(uint64(len(b)), at.n, turn)]
	view, err := from.view(int64(at.at), len(b))
	if err != nil {
		return 0, err
	}
	copy(b, view)
	at.at += uint64(len(b))
	if at.n -= uint64(len(b)); at.n == 0 {
		r.places = r.places[1:]
	}
	r.done += len(b)
	r.skip()
	r.read += uint64(len(b))
	r.ring.read.Store(r.read) // only now, after the bytes have been copied
	return len(b), nil
}

// pace returns the polling policy of a rank without work. The rank does not call Go's
// scheduler after every poll, because that wakes another thread: with 4 ranks on 2
// processors an all_sum of 4 KiB took 25 µs with a call every time, and 11 µs with this
// policy.
func pace(crowded bool) wait.Policy {
	return wait.Policy{
		Spin: 20 * time.Microsecond, Least: 500 * time.Nanosecond, Crowded: crowded, SpinTurns: 256,
		Yield: 500 * time.Microsecond, Offer: yield, YieldTurns: 8,
	}
}

// paceInside is pace for a rank with peers in the same process: these run only if this rank
// calls Go's scheduler.
func paceInside() wait.Policy {
	p := pace(true)
	p.Offer, p.YieldTurns = nil, 1
	return p
}

// sleepFor is the longest sleep. After it the rank polls again.
const sleepFor = 50 * time.Millisecond

// waiter is the state of one exchange's waiting.
type waiter struct {
	ctx    context.Context
	asleep bool          // the peers have been told that they have to ring
	seen   uint32        // the bell's value when the rank announced its sleep
	unhook func() bool   // keeps the end of ctx from ringing the bell; nil if it would not
	rang   chan struct{} // closed when the end of ctx has rung the bell
}

func (l *transport) waiter(ctx context.Context) waiter {
	l.pace.Begin()
	return waiter{ctx: ctx}
}

func (w *waiter) stop() {
	if w.unhook != nil && !w.unhook() {
		<-w.rang // the bell may be unmapped after this
	}
}

// next returns when it is time to poll again: at once if something has moved.
func (w *waiter) next(l *transport, moved bool) {
	if moved {
		l.pace.Moved()
		w.wake(l)
		return
	}
	if !w.asleep {
		if l.pace.Idle() != wait.Sleep {
			return
		}
		if w.unhook == nil {
			w.rang = make(chan struct{})
			w.unhook = context.AfterFunc(w.ctx, bellRinger(l.own, w.rang))
		}
		w.seen = l.own.bell().Load()
		l.own.asleep().Store(1)
		w.asleep = true
		return // look once more: a peer may have stored something before it saw asleep
	}
	futexWait(l.own.bell(), w.seen, sleepFor)
	w.wake(l)
}

// wake tells the peers that they need not ring any more, if they were told to ring.
func (w *waiter) wake(l *transport) {
	if w.asleep {
		w.asleep = false
		l.own.asleep().Store(0)
	}
}

// bellRinger returns a function that rings a segment's bell and then closes done. If the
// function were a closure in next, every waiter would escape to the heap.
func bellRinger(s *segment, done chan<- struct{}) func() {
	return func() {
		s.ringBell()
		close(done)
	}
}
