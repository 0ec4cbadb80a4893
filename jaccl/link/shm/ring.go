//go:build linux || darwin

package shm

import (
	"fmt"
	"sync/atomic"
)

// A ring carries the bytes of one rank to one other. Indices count bytes since the
// link began and are never reduced, so that full and empty differ. Each side keeps
// its own index to itself and stores a copy for the other; what it reads of the
// other's is checked, since the other may be broken, and a wrong index may cost
// the link but no access out of bounds.

// producer is the writing end.
type producer struct {
	written, taken *atomic.Uint64
	buf            []byte
	at             uint64 // bytes put
	shown          uint64 // bytes the consumer knows of
	limit          uint64 // at may come to that before taken is to be looked at
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

// put copies as much of b as there is room for.
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

// show lets the consumer see what has been put, and reports whether that is new.
func (p *producer) show() bool {
	if p.shown == p.at {
		return false
	}
	p.shown = p.at
	p.written.Store(p.at) // after the bytes
	return true
}

// consumer is the reading end.
type consumer struct {
	written, taken, read *atomic.Uint64
	buf                  []byte
	at                   uint64 // bytes taken
	shown                uint64 // bytes the producer knows are taken
	end                  uint64 // bytes known to be there
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

// take fills b with as much as has come.
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

// release gives the room of what has been taken back, and reports whether that is new.
func (c *consumer) release() bool {
	if c.shown == c.at {
		return false
	}
	c.shown = c.at
	c.taken.Store(c.at) // after the bytes
	return true
}
