//go:build linux || darwin

package shm

import (
	"fmt"

	"github.com/gomoe/gomoe/jaccl/link"
)

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
