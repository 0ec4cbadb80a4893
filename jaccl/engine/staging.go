package engine

import (
	"math/bits"

	"github.com/gomoe/gomoe/internal/reduce"
	"github.com/gomoe/gomoe/jaccl/link"
)

// staging is memory for receiving: memory of the link, if the link lends some. It grows
// to the largest size needed by an operation, and is kept for later operations.
type staging struct {
	b       []byte
	lender  link.Lender  // nil for the process's own memory
	release func() error // releases b; nil if b is the process's own memory
}

// of returns n bytes, aligned for elements. They are valid until the next call.
func (s *staging) of(n int) []byte {
	if len(s.b) < n {
		s.close() // before leasing more, because the link may have little to lend
		s.grow(n)
	}
	return s.b[:n]
}

func (s *staging) grow(n int) {
	if s.lender != nil {
		// Sizes are powers of two, because a device keeps a region for each size of
		// lease.
		if b, release, err := s.lender.Lease(1 << bits.Len(uint(n-1))); err == nil {
			s.b, s.release = b, release
			return
		}
	}
	s.b = reduce.Words(make([]uint64, (n+7)/8))
}

// close releases the memory.
func (s *staging) close() error {
	release := s.release
	s.b, s.release = nil, nil
	if release == nil {
		return nil
	}
	return release()
}
