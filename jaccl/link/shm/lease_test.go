//go:build linux || darwin

package shm

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/link"
)

// TestLease: leased memory lies in the arena, where peers can read it. It outlives the link,
// and its region is used again.
func TestLease(t *testing.T) {
	links := opened(t, 2, Options{})
	s, peer := links[0].(link.Shared), links[1].(link.Shared)
	a, releaseA, err := s.Lease(10000)
	require.NoError(t, err)
	b, releaseB, err := s.Lease(1)
	require.NoError(t, err)
	require.Len(t, a, 10000)
	copy(a, "what the peer reads")
	at, ok := s.Locate(a)
	require.True(t, ok, "a lease does not lie in the arena")
	other, ok := s.Locate(b)
	require.True(t, ok)
	if other == at {
		t.Fatal("two leases lie in one place")
	}
	if in, ok := s.Locate(a[9000:]); !ok || in != at+9000 {
		t.Errorf("byte 9000 of a lease at %d lies at %d", at, in)
	}
	seen, err := peer.View(0, at, len(a))
	require.NoError(t, err)
	if !bytes.HasPrefix(seen, []byte("what the peer reads")) {
		t.Errorf("the peer reads %q", seen[:20])
	}
	seen[0] = 'W'
	if a[0] != 'W' {
		t.Error("what the peer writes is not in the lease")
	}

	require.NoError(t, releaseA())
	require.NoError(t, releaseA())
	c, releaseC, err := s.Lease(9999) // as many pages
	require.NoError(t, err)
	if again, _ := s.Locate(c); again != at {
		t.Errorf("a lease of the same size lies at %d, want at %d where one has ended", again, at)
	}
	if !bytes.Equal(c, make([]byte, len(c))) {
		t.Error("memory that is leased again is not zero")
	}

	for _, l := range links {
		require.NoError(t, l.Close())
	}
	c[9998], b[0] = 1, 1 // still there
	if _, _, err := s.Lease(1); err == nil {
		t.Error("a closed link leases memory")
	}
	require.NoError(t, releaseB())
	require.NoError(t, releaseC())
}
