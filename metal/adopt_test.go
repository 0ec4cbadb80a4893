//go:build linux

package metal_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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
	plan, err := gomoe.Compile(t.Context(), p, onTwo(d, nil))
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

// Memory from which kernels cannot read vectors is the host's alone.
func TestAdoptRefuses(t *testing.T) {
	d := emulated(t, metal.Emulation{})
	for _, mem := range [][]byte{nil, make([]byte, 1<<20)[8:]} {
		_, err := d.Adopt(mem)
		require.ErrorContains(t, err, "want some at a multiple of 16 bytes")
	}
}

// watched counts what memory the GPU gets.
type watched struct {
	*metal.Device
	made, over int // bytes of its own, and buffers over memory of others
}

func (w *watched) Alloc(n int) ([]byte, func(), error) {
	w.made += n
	return w.Device.Alloc(n)
}

func (w *watched) Adopt(mem []byte) (func(), error) {
	free, err := w.Device.Adopt(mem)
	if err == nil {
		w.over++
	}
	return free, err
}

// The GPU reads weights where they lie in a mapped file, to which nobody may write: not at pages,
// two in one page, and one twice. What lies where vectors cannot be read from is copied.
func TestLentFile(t *testing.T) {
	const page = 4096
	for _, c := range []struct{ w, b, over, copied int }{
		{page - 48, page + 112, 2, 0},
		{16, 16, 2, 0},
		{2*page + 16, page + 8, 1, 1},
	} {
		d, in := &watched{Device: emulated(t, metal.Emulation{})}, inputs(1)
		content, at := make([]byte, 3*page+100), map[string]int{"w": c.w, "b": c.b}
		for name, i := range at {
			copy(content[i:], in[name].Bytes())
		}
		in["w"] = array.Over(in["w"].Type, content[c.w:][:160])
		name := filepath.Join(t.TempDir(), "weights")
		require.NoError(t, os.WriteFile(name, content, 0o600))
		f, err := os.Open(name)
		require.NoError(t, err)
		mem, err := unix.Mmap(int(f.Fd()), 0, len(content), unix.PROT_READ, unix.MAP_SHARED)
		require.NoError(t, err)
		in["b"] = array.Over(in["b"].Type, content[c.b:][:160])
		p := model(t, 8, 40)
		want, err := gomoe.Run(t.Context(), p, onTwo(nil, nil), in)
		require.NoError(t, err)
		plan, err := gomoe.Compile(t.Context(), p, onTwo(d, nil))
		require.NoError(t, err)
		comms, err := engine.Local(2, jaccl.Options{})
		require.NoError(t, err)
		s, err := runtime.Open(plan, comms, runtime.Options{Device: d})
		require.NoError(t, err)
		made, over, returned, lent := d.made, d.over, 0, 0
		given := map[string]*runtime.Array{}
		for name, i := range at {
			given[name], err = s.Lend(name, runtime.Loan{
				Mem:  func(runtime.Part) []byte { return mem[i:][:160] },
				Fill: runtime.ReadAt(f, int64(i)),
				Back: func() { returned++ },
			})
			require.NoError(t, err)
			lent += int(given[name].Lent())
		}
		require.Equal(t, c.over, d.over-over, "buffers over the file")
		require.Equal(t, 2*160*(2-c.copied), lent)
		require.Equal(t, 2*160*c.copied, d.made-made, "bytes of weights that are copied")
		given["x"], err = s.Put("x", in["x"])
		require.NoError(t, err)
		for range 2 {
			out, err := s.Run(t.Context(), given)
			require.NoError(t, err)
			for i := range out {
				got, err := out[i].Get()
				require.NoError(t, err)
				near(t, fmt.Sprintf("result %d", i), got, want[i])
			}
		}
		require.Equal(t, c.over, d.over-over, "buffers over the file")
		s.Recycle(given["w"], given["b"])
		require.Equal(t, 2, returned)
		s.Close()
		require.NoError(t, unix.Munmap(mem))
		require.NoError(t, f.Close())
	}
}

// inputs are those of model(t, 8, 40).
func inputs(seed uint64) map[string]array.Array {
	return map[string]array.Array{"x": random(seed, 8, 40), "w": random(2, 40), "b": random(9, 40)}
}
