package runtime

import (
	"fmt"
	"sync"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// spare is unused memory of one rank, kept for new arrays of the same number of
// bytes. Several goroutines may use it at once.
type spare struct {
	heap *heap // the source of new memory; nil is Go's heap
	mu   sync.Mutex
	free map[int64][]piece // by length
	shut bool              // dropped: memory is released instead of kept
}

func newSpare(h *heap) *spare { return &spare{heap: h, free: map[int64][]piece{}} }

// keep takes the memory of p, unless it must be visible to a device and is not.
func (s *spare) keep(p piece) {
	if s.heap != nil && !s.heap.knows(p) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		p.from.free()
		return
	}
	s.free[p.Type.Bytes()] = append(s.free[p.Type.Bytes()], p)
}

// count returns the number of pieces of the size.
func (s *spare) count(size int64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.free[size])
}

// array returns an array with undefined elements. An error comes from the
// device's allocator.
func (s *spare) array(t graph.Type) (piece, error) {
	s.mu.Lock()
	l := s.free[t.Bytes()]
	if len(l) > 0 {
		p := l[len(l)-1]
		l[len(l)-1] = piece{}
		s.free[t.Bytes()] = l[:len(l)-1]
		s.mu.Unlock()
		return piece{array.Over(t, p.Bytes()), p.from}, nil
	}
	s.mu.Unlock()
	if s.heap == nil || t.Bytes() == 0 {
		return piece{lasting(t), nil}, nil
	}
	b, err := s.heap.block(int(t.Bytes()))
	if err != nil {
		return piece{}, fmt.Errorf("runtime: memory for %s on %s: %w", t, s.heap.device.Name(), err)
	}
	return piece{array.Over(t, b.mem), b}, nil
}

// drop releases all memory belonging to a device, now and when kept later.
func (s *spare) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.free {
		for _, p := range l {
			p.from.free()
		}
	}
	clear(s.free)
	s.shut = true
}
