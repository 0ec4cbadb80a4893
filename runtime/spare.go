package runtime

import (
	"sync"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// spare is memory of one rank that nobody uses any more, for arrays of as many
// bytes. It may be used by several goroutines.
type spare struct {
	mu   sync.Mutex
	free map[int64][][]byte // by length
}

func newSpare() *spare { return &spare{free: map[int64][][]byte{}} }

// keep takes the memory of a.
func (s *spare) keep(a array.Array) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free[a.Type.Bytes()] = append(s.free[a.Type.Bytes()], a.Bytes())
}

// array returns an array whose elements are anything.
func (s *spare) array(t graph.Type) array.Array {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.free[t.Bytes()]
	if len(l) == 0 {
		return array.New(t)
	}
	mem := l[len(l)-1]
	l[len(l)-1] = nil
	s.free[t.Bytes()] = l[:len(l)-1]
	return array.Over(t, mem)
}
