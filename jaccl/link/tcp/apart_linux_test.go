package tcp

import (
	"net"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gomoe/gomoe/jaccl/link"
)

// TestLeave: the thread is on another core, and may run on all of them as before.
func TestLeave(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, after unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &all))
	defer unix.SchedSetaffinity(0, &all)
	if all.Count() < 2 {
		t.Skip("one core, want two to go from one to the other: run it on a machine, or in a container, with more")
	}
	var one unix.CPUSet
	one.Set(current())
	require.NoError(t, unix.SchedSetaffinity(0, &one)) // on one core, so that the kernel does not move the thread meanwhile
	before := current()
	leave(before)
	if now := current(); now != before {
		t.Errorf("a thread that may run on core %d only is on %d", before, now)
	}
	moved := 0
	for range 100 {
		require.NoError(t, unix.SchedSetaffinity(0, &one))
		require.NoError(t, unix.SchedSetaffinity(0, &all))
		leave(before)
		if current() != before { // or it has been moved back at once
			moved++
		}
	}
	if moved < 50 {
		t.Errorf("%d of 100 times on another core than %d, want most", moved, before)
	}
	require.NoError(t, unix.SchedGetaffinity(0, &after))
	if after != all {
		t.Errorf("the thread may run on %d cores, before on %d", after.Count(), all.Count())
	}
}

// host is a site some of whose ranks share a host.
type host struct {
	link.Site
	rank, size, here int
}

func (h host) Rank() int           { return h.rank }
func (h host) Size() int           { return h.size }
func (h host) Host(int) string     { return "host" }
func (h host) SameHost(r int) bool { return r < h.here }

// TestNear: lower ranks of the same host are near if the host has a core for each rank.
func TestNear(t *testing.T) {
	cores := runtime.NumCPU()
	for _, c := range []struct {
		host
		want int // ranks 0 to want-1 are near
	}{
		{host{rank: 0, size: 2, here: 2}, 0},
		{host{rank: 1, size: 2, here: 2}, min(1, cores-1)},
		{host{rank: cores - 1, size: cores + 2, here: cores}, cores - 1},
		{host{rank: cores, size: cores + 1, here: cores + 1}, 0},
		{host{rank: 1, size: 3, here: 0}, 0},
	} {
		l, err := connect(c.host, nil, func([]net.Conn) (mover, error) { return nil, nil })
		require.NoError(t, err)
		for r, p := range l.(*transport).peers {
			if p != nil && p.near != (r < c.want) {
				t.Errorf("rank %d of %d, %d on its host, %d cores: rank %d near: %v", c.rank, c.size, c.here, cores, r, p.near)
			}
		}
	}
}
