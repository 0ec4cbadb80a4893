package watch

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/gomoe/gomoe/internal/frame"
)

const (
	// outbox is the number of frames that may wait for a peer that does not read. Such a
	// peer will be found silent.
	outbox = 64
	// farewell limits the sending of the last frames, and the wait for the peer to end
	// its side of the connection afterwards.
	farewell = 500 * time.Millisecond
)

// peer is the connection to one rank. One goroutine reads it and one writes.
type peer struct {
	rank int
	conn net.Conn

	mu      sync.Mutex
	queue   []message     // to be written
	ending  bool          // nothing more will be queued
	more    chan struct{} // buffers one signal: there is something to write, or ending is set
	written uint32        // number of frames written, which is the next frame's number

	// The watch's lock guards these.
	heard time.Time // when the last frame came
	left  bool      // the peer has announced that it leaves
	gone  bool      // the connection has ended
	clock clock
	asked int           // unanswered questions about the time
	first chan struct{} // closed by complete: the first estimate of the clock is available, or there will be none
}

type message struct {
	typ  uint8
	head []byte
}

func newPeer(rank int, conn net.Conn) *peer {
	return &peer{rank: rank, conn: conn, more: make(chan struct{}, 1), heard: time.Now(), first: make(chan struct{})}
}

// send queues a frame. It does not block. If the queue is full, heartbeats are dropped;
// other frames are queued all the same.
func (p *peer) send(typ uint8, head []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending || len(p.queue) >= outbox && (typ == typePing || typ == typePong) {
		return
	}
	p.queue = append(p.queue, message{typ, head})
	p.signal()
}

// end makes write return when the queue is empty.
func (p *peer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = true
	p.conn.SetWriteDeadline(time.Now().Add(farewell))
	p.signal()
}

func (p *peer) signal() {
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// write writes the queued frames until end is called or the connection breaks. After end
// it writes the rest of the queue and ends this side of the connection.
func (p *peer) write() {
	for range p.more {
		p.mu.Lock()
		queue, ending := p.queue, p.ending
		p.queue = nil
		p.mu.Unlock()
		var b []byte
		for _, m := range queue {
			if m.typ == typePing || m.typ == typePong {
				m.head = frame.Uint(m.head, uint64(time.Now().UnixNano()))
			}
			b = frame.Append(b, frame.Header{Type: m.typ, Seq: p.written}, m.head)
			p.written++
		}
		if len(b) > 0 {
			if _, err := p.conn.Write(b); err != nil {
				return // the reader finds the reason
			}
		}
		if ending {
			if c, ok := p.conn.(interface{ CloseWrite() error }); ok {
				c.CloseWrite()
			}
			return
		}
	}
}

// read passes every frame to handle until the connection ends, returning why it ended.
func (p *peer) read(handle func(typ uint8, head []byte) error) error {
	for seq := uint32(0); ; seq++ {
		h, head, err := frame.Read(p.conn, maxMessage)
		if err != nil {
			return err
		}
		if h.Seq != seq {
			return fmt.Errorf("watch: frame %d, want %d", h.Seq, seq)
		}
		if err := handle(h.Type, head); err != nil {
			return err
		}
	}
}

// ended puts the end of a connection in words.
func ended(err error) string {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "ended without a word"
	case errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, os.ErrDeadlineExceeded):
		return "does not answer: the connection to its machine has timed out"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "does not answer: there is no way to its machine any more"
	}
	return fmt.Sprintf("cannot be understood: %v", err)
}

// window is the number of answers used to estimate an offset. At the default heartbeat
// these are the answers of the last ten seconds, in which clocks hardly drift.
const window = 32

// clock estimates the difference between a peer's clock and this rank's, like NTP: it
// uses the answer with the shortest round trip, which can be wrong by half of that time.
type clock struct {
	offsets, trips [window]time.Duration
	n              int // number of answers so far; the last window of them are kept
}

// sample adds the times of one question, in nanoseconds. asked and back are this rank's
// times of the question and of the answer; came and answered are the peer's. It returns
// false, adding nothing, if the times are impossible.
func (c *clock) sample(asked, came, answered, back int64) bool {
	trip := (back - asked) - (answered - came)
	if back < asked || answered < came || trip < 0 {
		return false
	}
	// The mean of two differences, computed without overflow: clocks may be years apart.
	a, b := came-asked, answered-back
	c.offsets[c.n%window] = time.Duration(a/2 + b/2 + (a%2+b%2)/2)
	c.trips[c.n%window] = time.Duration(trip)
	c.n++
	return true
}

// estimate returns the peer's clock minus this rank's, and the uncertainty, which is
// math.MaxInt64 if there is no answer yet.
func (c *clock) estimate() (offset, uncertainty time.Duration) {
	best := time.Duration(math.MaxInt64)
	for i := range min(c.n, window) {
		if c.trips[i] < best {
			best, offset = c.trips[i], c.offsets[i]
		}
	}
	if c.n == 0 {
		return 0, best
	}
	return offset, best/2 + 1
}
