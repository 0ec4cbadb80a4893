package jaccltest

import (
	"errors"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
)

// arena is memory that the communicator lends, for the buffers of one operation after
// another. A nil arena stands for the process's own memory.
type arena struct {
	b, rest []byte // all of the memory, and the part not yet used by the trial in progress
	release func() error
}

// newArena returns memory that is enough for each of a member's trials; nil if the
// communicator lends none.
func newArena(c jaccl.Communicator, member int, ts []trial) (*arena, error) {
	m, ok := c.(collective.Leaser)
	if !ok {
		return nil, nil
	}
	most := 0
	for _, t := range ts {
		n := 0
		for _, part := range append(t.in[member:member+1:member+1], t.out[member]) {
			for _, b := range part {
				n += len(b) + t.skew + 2*margin + 64
			}
		}
		most = max(most, n)
	}
	b, release, err := m.Lease(most)
	if errors.Is(err, jaccl.ErrUnsupported) {
		return nil, nil
	}
	return &arena{b: b, release: release}, err
}

// close releases the memory.
func (a *arena) close() error {
	if a == nil {
		return nil
	}
	return a.release()
}

// next begins a trial, returning the arena for it. It returns nil for some members of
// some trials, so that operations also have members with and without buffers in lent
// memory.
func (a *arena) next(o op, member int) *arena {
	if a == nil || o.seed%4 == 3 && (member+o.seed)%3 != 0 {
		return nil
	}
	a.rest = a.b
	return a
}

// take returns n bytes. In an arena they start at a cache line.
func (a *arena) take(n int) []byte {
	if a == nil {
		return make([]byte, n)
	}
	b := a.rest[:n:n]
	a.rest = a.rest[min((n+63)/64*64, len(a.rest)):]
	return b
}
