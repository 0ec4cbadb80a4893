package mpi

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
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
	jaccltest.LinkConformance(t, func(t *testing.T, n int) []link.Link {
		job++
		links := make([]link.Link, n)
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

// The last words of a peer may come before what it sent earlier, which is still to be
// waited for.
func TestOvertaken(t *testing.T) {
	w := alone(t)
	const base = maxTag - 10*tagKinds
	a, err := newLink(w, 0, []peer{{}, {out: base, in: base + tagKinds}})
	require.NoError(t, err)
	b, err := newLink(w, 1, []peer{{out: base + tagKinds, in: base}, {}})
	require.NoError(t, err)
	b.peers[0].left, b.peers[0].leftSent = true, 1
	var wg sync.WaitGroup
	wg.Go(func() {
		time.Sleep(20 * time.Millisecond)
		if err := a.Exchange(t.Context(), &link.Exchange{Peers: []int{1}, Send: [][][]byte{{[]byte("last")}}}); err != nil {
			t.Error(err)
		}
	})
	got := make([]byte, 4)
	if err := b.Exchange(t.Context(), &link.Exchange{Peers: []int{0}, Recv: [][][]byte{{got}}}); err != nil || string(got) != "last" {
		t.Errorf("%q has come: %v, want last", got, err)
	}
	wg.Wait()
	// What it has not sent will not come.
	err = b.Exchange(t.Context(), &link.Exchange{Peers: []int{0}, Recv: [][][]byte{{got}}})
	var gone *link.PeerError
	if !errors.As(err, &gone) || gone.Peer != 0 {
		t.Errorf("%v, want a *jaccl.PeerError of rank 0", err)
	}
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
}
