//go:build linux

package metal_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/metal"
	"github.com/gomoe/gomoe/runtime"
)

// leasing is a communicator that has mapped memory, as those of several processes do.
type leasing struct {
	collective.Communicator
	mapped, released int
}

func (l *leasing) Lease(n int) ([]byte, func() error, error) {
	page := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, (n+page-1)/page*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	l.mapped++
	return mem[:n:n], func() error { l.released++; return unix.Munmap(mem) }, nil
}

// The GPU works in the memory from which ranks exchange data.
func TestLeasedMemory(t *testing.T) {
	d := emulated(t, metal.Emulation{})
	p := model(t, 8, 40)
	want, err := gomoe.Run(t.Context(), p, onTwo(nil, nil), inputs(1))
	require.NoError(t, err)
	plan, err := gomoe.Compile(p, onTwo(d, nil))
	require.NoError(t, err)
	local, err := engine.Local(2, jaccl.Options{})
	require.NoError(t, err)
	comms := []*leasing{{Communicator: local[0]}, {Communicator: local[1]}}
	s, err := runtime.Open(plan, comms, runtime.Options{Device: d})
	require.NoError(t, err)
	in := map[string]*runtime.Array{}
	for name, a := range inputs(1) {
		in[name], err = s.Put(name, a)
		require.NoError(t, err)
	}
	for range 2 {
		out, err := s.Run(context.Background(), in)
		require.NoError(t, err)
		for i := range out {
			got, err := out[i].Get()
			require.NoError(t, err)
			near(t, fmt.Sprintf("result %d", i), got, want[i])
		}
	}
	for _, c := range comms {
		require.Zero(t, c.released, "the GPU has memory of its own")
	}
	s.Close()
	for _, c := range comms {
		require.Equal(t, 1, c.mapped)
		require.Equal(t, 1, c.released)
	}
}

// Memory that is not at a page is the host's alone.
func TestAdoptRefuses(t *testing.T) {
	d := emulated(t, metal.Emulation{})
	for _, mem := range [][]byte{nil, make([]byte, 1<<20)[8:]} {
		_, err := d.Adopt(mem)
		require.ErrorContains(t, err, "want some at a multiple of the page")
	}
}

// inputs are those of model(t, 8, 40).
func inputs(seed uint64) map[string]array.Array {
	return map[string]array.Array{"x": random(seed, 8, 40), "w": random(2, 40), "b": random(9, 40)}
}
