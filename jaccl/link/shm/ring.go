//go:build linux || darwin

package shm

import (
	"fmt"
	"sync/atomic"
)

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
