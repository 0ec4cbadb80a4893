//go:build linux || darwin

package shm

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

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
