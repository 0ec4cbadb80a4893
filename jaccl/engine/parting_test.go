package engine

import (
	"testing"

	"github.com/gomoe/gomoe/jaccl/link"
)

// A partings forgets a group when all members have closed it, whichever is the last one, and
// remembers a bounded number of groups whatever other ranks say.
func TestPartings(t *testing.T) {
	var p partings
	for id := range uint64(100) {
		steps := []func(){
			func() { p.close(id, 2) },
			func() { p.hear(1, link.Parting{Group: id, Begun: 5}) },
			func() { p.hear(2, link.Parting{Group: id, Begun: 6}) },
		}
		for i := range steps {
			steps[(i+int(id))%3]()
			if last := i == 2; p.some.Load() == last || len(p.of) > 1 {
				t.Errorf("group %d, after %d of 3 have closed it: %d groups are known", id, i+1, len(p.of))
			}
		}
	}
	p.hear(1, link.Parting{Group: 3, Begun: 5})
	for _, c := range []struct {
		id   uint64
		rank int
		n    uint64
		gone bool
	}{{3, 1, 5, false}, {3, 1, 6, true}, {3, 2, 6, false}, {4, 1, 6, false}} {
		if got := p.gone(c.id, c.rank, c.n); got != c.gone {
			t.Errorf("rank %d is gone from group %d before operation %d: %v, want %v", c.rank, c.id, c.n, got, c.gone)
		}
	}
	for id := range uint64(2 * maxPartings) {
		p.hear(1, link.Parting{Group: id})
	}
	if len(p.of) != maxPartings {
		t.Errorf("%d groups are remembered, want %d", len(p.of), maxPartings)
	}
}
