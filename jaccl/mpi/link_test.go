package mpi

import (
	"sync"
	"testing"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
)

// alone is the world of this process, as MPI starts once in a process.
func alone(t *testing.T) *World {
	t.Helper()
	w, err := aloneOnce()
	if err != nil {
		t.Skipf("no MPI (Debian: apt-get install openmpi-bin): %v", err)
	}
	return w
}

var aloneOnce = sync.OnceValues(func() (*World, error) { return Open(Options{}) })

// Links of n ranks that are one rank of MPI, which sends to itself: the tags say who
// is meant. So the suite, which is for one process, has MPI's messages.
func TestLinks(t *testing.T) {
	w := alone(t)
	job := 0
	jaccltest.LinkConformance(t, func(t *testing.T, n int) []jaccl.Link {
		job++
		links := make([]jaccl.Link, n)
		for r := range links {
			peers := make([]peer, n)
			for o := range peers {
				peers[o].out = ((job*8+r)*8 + o) * tagKinds
				peers[o].in = ((job*8+o)*8 + r) * tagKinds
			}
			l, err := newLink(w, r, peers)
			if err != nil {
				t.Fatal(err)
			}
			links[r] = l
		}
		return links
	})
}
