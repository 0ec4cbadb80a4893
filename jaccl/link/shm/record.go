//go:build linux || darwin

package shm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"unsafe"

	"github.com/gomoe/gomoe/jaccl/link"
)

// A ring carries a head, if the exchange has one, and then data, if there is any. Each
// begins with a record of 32 bytes, little endian:
//
//	0   kind    uint32
//	4   sum     uint32   CRC-32C of the record, with zero here, and its body
//	8   seq     uint64   number of the exchange between the two ranks
//	16  bytes   uint64   size of the head, or of all the data
//	24  places  uint64   number of places, for data that the receiver reads in the arena
//
// The body of kindHead is the head. The body of kindView is places of 16 bytes each: an
// offset in the sender's arena and a length. kindData has no body: its bytes follow
// without a checksum.
const (
	recordBytes = 32
	placeBytes  = 16

	kindHead = 0x64616568 // a head
	kindData = 0x61746164 // data, in the ring
	kindView = 0x77656976 // data in the sender's arena, at offsets

	// maxPlaces bounds the memory that a peer can make this rank use.
	maxPlaces = link.MaxHead / placeBytes
)

type record struct {
	kind   uint32
	sum    uint32
	seq    uint64
	bytes  uint64
	places uint64
}

// place is a piece of data in the sender's arena: its offset and its length.
type place struct{ at, n uint64 }

// body returns the number of bytes with a checksum following the record.
func (r record) body() int {
	switch r.kind {
	case kindHead:
		return int(r.bytes)
	case kindView:
		return placeBytes * int(r.places)
	}
	return 0
}

func kindName(k uint32) string {
	switch k {
	case kindHead:
		return "a head"
	case kindData, kindView:
		return "data"
	}
	return fmt.Sprintf("a record of kind %#x", k)
}

// newTable returns the table of the checksum that processors compute with an instruction.
func newTable() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// appendRecord appends r, with its sum, and its body to b.
func appendRecord(b []byte, r record, body []byte, table *crc32.Table) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, r.kind)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, r.seq)
	b = binary.LittleEndian.AppendUint64(b, r.bytes)
	b = binary.LittleEndian.AppendUint64(b, r.places)
	b = append(b, body...)
	binary.LittleEndian.PutUint32(b[at+4:], crc32.Checksum(b[at:], table))
	return b
}

// parseRecord parses a record of 32 bytes. It returns an error unless the record belongs to
// exchange number seq, announces a head if head is true and data otherwise, and has lengths
// within bounds. It does not check the sum.
func parseRecord(b []byte, head bool, seq uint64) (record, error) {
	r := record{
		kind:   binary.LittleEndian.Uint32(b),
		sum:    binary.LittleEndian.Uint32(b[4:]),
		seq:    binary.LittleEndian.Uint64(b[8:]),
		bytes:  binary.LittleEndian.Uint64(b[16:]),
		places: binary.LittleEndian.Uint64(b[24:]),
	}
	known := r.kind == kindHead || r.kind == kindData || r.kind == kindView
	want := "data"
	if head {
		want = "a head"
	}
	switch {
	case !known || head != (r.kind == kindHead) || r.seq != seq:
		return r, fmt.Errorf("sends %s of exchange %d, want %s of exchange %d", kindName(r.kind), r.seq, want, seq)
	case head && r.bytes > link.MaxHead:
		return r, fmt.Errorf("sends a head of %d bytes, want at most %d", r.bytes, link.MaxHead)
	case r.kind == kindView && (r.places == 0 || r.places > maxPlaces):
		return r, fmt.Errorf("sends data in %d places, want 1 to %d", r.places, maxPlaces)
	case r.kind != kindView && r.places != 0:
		return r, fmt.Errorf("sends %s with %d places, want none", kindName(r.kind), r.places)
	}
	return r, nil
}

// checkSum checks the sum of b, the received record r with its body. It overwrites the sum
// in b with zeros.
func checkSum(r record, b []byte, table *crc32.Table) error {
	clear(b[4:8])
	if got := crc32.Checksum(b, table); got != r.sum {
		return fmt.Errorf("sends %s of exchange %d whose sum is %08x, want %08x", kindName(r.kind), r.seq, got, r.sum)
	}
	return nil
}

// appendPlaces appends the places in a record's body. It returns an error unless together
// they have total bytes.
func appendPlaces(to []place, body []byte, total uint64) ([]place, error) {
	left := total
	for ; len(body) > 0; body = body[placeBytes:] {
		p := place{binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint64(body[8:])}
		if p.n == 0 || p.n > left || p.at+p.n < p.at {
			return nil, fmt.Errorf("sends a place of %d bytes at %#x, want 1 to %d bytes", p.n, p.at, left)
		}
		left -= p.n
		to = append(to, p)
	}
	if left != 0 {
		return nil, fmt.Errorf("sends places of %d bytes, want %d", total-left, total)
	}
	return to, nil
}

// A ring carries bytes from one rank to another. Indices count bytes since the link began
// and never wrap around, so a full ring differs from an empty one. Each side keeps its
// own index in private memory and stores a copy for the other side. A side checks the
// other side's index whenever it reads it, because the other side may be broken: a wrong
// index may break the link but must not cause an access out of bounds.

// producer is the writing end of a ring.
type producer struct {
	written, taken *atomic.Uint64 // in shared memory: this side's index and the consumer's
	buf            []byte         // the ring's bytes, a power of two
	at             uint64         // bytes put
	shown          uint64         // bytes visible to the consumer
	limit          uint64         // at may grow to this before taken has to be read again
}

func newProducer(from *segment, to int) producer {
	c := from.channel(to)
	r := from.rings(to)
	size := int64(from.ring)
	return producer{
		written: from.word64(c + atWritten),
		taken:   from.word64(c + atTaken),
		buf:     from.mem[r : r+size : r+size],
		limit:   uint64(size),
	}
}

// put copies as much of b into the ring as fits, returning the number of bytes.
func (p *producer) put(b []byte) (int, error) {
	size := uint64(len(p.buf))
	if uint64(len(b)) > p.limit-p.at {
		taken := p.taken.Load()
		if p.at-taken > size {
			return 0, fmt.Errorf("has taken %d bytes of the %d in its ring of %d", taken, p.at, size)
		}
		p.limit = taken + size
	}
	b = b[:min(uint64(len(b)), p.limit-p.at)]
	n := copy(p.buf[p.at&(size-1):], b)
	copy(p.buf, b[n:])
	p.at += uint64(len(b))
	return len(b), nil
}

// show publishes all bytes put so far to the consumer, reporting whether there are more
// than before.
func (p *producer) show() bool {
	if p.shown == p.at {
		return false
	}
	p.shown = p.at
	p.written.Store(p.at) // only now, after the bytes
	return true
}

// consumer is the reading end of a ring.
type consumer struct {
	written, taken, read *atomic.Uint64 // in shared memory: the producer's index and this side's two
	buf                  []byte         // the ring's bytes, a power of two
	at                   uint64         // bytes taken
	shown                uint64         // bytes of space for the producer to reuse
	end                  uint64         // bytes that are known to have been put
}

func newConsumer(from *segment, to int) consumer {
	c := from.channel(to)
	r := from.rings(to)
	size := int64(from.ring)
	return consumer{
		written: from.word64(c + atWritten),
		taken:   from.word64(c + atTaken),
		read:    from.word64(c + atRead),
		buf:     from.mem[r : r+size : r+size],
	}
}

// take fills b with available bytes, returning their number.
func (c *consumer) take(b []byte) (int, error) {
	size := uint64(len(c.buf))
	if uint64(len(b)) > c.end-c.at {
		end := c.written.Load()
		if end-c.at > size || end < c.end {
			return 0, fmt.Errorf("has put %d bytes where %d were taken of its ring of %d", end, c.at, size)
		}
		c.end = end
	}
	b = b[:min(uint64(len(b)), c.end-c.at)]
	n := copy(b, c.buf[c.at&(size-1):])
	copy(b[n:], c.buf)
	c.at += uint64(len(b))
	return len(b), nil
}

// release returns the space of taken bytes to the producer, reporting whether that is
// more than before.
func (c *consumer) release() bool {
	if c.shown == c.at {
		return false
	}
	c.shown = c.at
	c.taken.Store(c.at) // only now, after the bytes have been copied
	return true
}

// A segment is one rank's shared memory:
//
//	header     one page: nonce, state, bell, the part of the arena given out
//	channels   256 bytes for each rank: the indices of the ring to it
//	rings      one for each other rank, by rank
//	arena      memory for Alloc, sparse
//
// A rank writes the header, the producer's indices of the channels, the rings and the
// arena of its own segment. A peer writes the consumer's indices of the channel to that
// peer, and rings the bell; in a collective on shared memory it also writes into the
// arena. Words written by different ranks are two cache lines apart, because processors
// fetch lines in pairs.
const (
	headerBytes  = 4 << 10
	channelBytes = 256
	nonceBytes   = 16

	atNonce  = 0
	atState  = 128 // uint32: stateOpen or stateClosed
	atGiven  = 256 // uint64: bytes of the arena that Alloc has given out
	atBell   = 384 // uint32: the futex that a sleeping rank waits on
	atAsleep = 512 // uint32: 1 if the rank sleeps, so that peers have to ring the bell

	// In a channel; all count from the beginning of the link.
	atWritten = 0   // uint64, the producer's: bytes put into the ring
	atTaken   = 128 // uint64, the consumer's: bytes taken from the ring
	atRead    = 136 // uint64, the consumer's: bytes read from the producer's arena

	stateOpen   = 0x6f70656e
	stateClosed = 0x73687574

	minRing, maxRing = 4 << 10, 16 << 20
)

// layout has the offsets of the parts of a rank's segment.
type layout struct {
	rank, ranks int
	ring        int   // bytes of a ring
	size        int64 // bytes of the segment
	arena       int64 // the offset of the arena
}

// newLayout returns the layout of a rank's segment. It returns an error if the sizes,
// which the rank may have announced, are invalid.
func newLayout(rank, ranks, ring int, size int64, page int) (layout, error) {
	if ring < minRing || ring > maxRing || ring&(ring-1) != 0 {
		return layout{}, fmt.Errorf("a ring of %d bytes, want a power of two from %d to %d", ring, minRing, maxRing)
	}
	l := layout{rank: rank, ranks: ranks, ring: ring, size: size}
	rings := up(headerBytes+channelBytes*int64(ranks), int64(page))
	l.arena = up(rings+int64(ring)*int64(ranks-1), int64(page))
	if size < l.arena || int64(int(size)) != size {
		return layout{}, fmt.Errorf("a segment of %d bytes, want at least %d", size, l.arena)
	}
	return l, nil
}

func up(n, to int64) int64 { return (n + to - 1) / to * to }

// channel returns the offset of the indices of the ring to a rank.
func (l layout) channel(to int) int64 { return headerBytes + channelBytes*int64(to) }

// rings returns the offset of the ring to a rank.
func (l layout) rings(to int) int64 {
	if to > l.rank {
		to--
	}
	return l.arena - int64(l.ring)*int64(l.ranks-1-to)
}

// segment is a rank's shared memory, mapped into this process.
type segment struct {
	layout
	mem []byte
}

func (s *segment) word32(at int64) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&s.mem[at : at+4][0]))
}

func (s *segment) word64(at int64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&s.mem[at : at+8][0]))
}

func (s *segment) state() *atomic.Uint32  { return s.word32(atState) }
func (s *segment) bell() *atomic.Uint32   { return s.word32(atBell) }
func (s *segment) asleep() *atomic.Uint32 { return s.word32(atAsleep) }
func (s *segment) given() *atomic.Uint64  { return s.word64(atGiven) }

// wake rings the bell of the segment's rank if the rank sleeps. The caller has already
// stored whatever the rank is to find.
func (s *segment) wake() {
	if s.asleep().Load() != 0 {
		s.ringBell()
	}
}

func (s *segment) ringBell() {
	s.bell().Add(1)
	futexWake(s.bell())
}
