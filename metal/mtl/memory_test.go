//go:build unix

package mtl

import (
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gomoe/gomoe/metal/internal/standin"
)

func pages(t *testing.T, n int) []byte {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, n*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	return mem
}

// The GPU works in memory that somebody else has mapped, at any offset.
func TestBufferOver(t *testing.T) {
	b := stand(t, standin.Options{})
	mem := pages(t, 4)
	x, err := b.device.BufferOver(mem[os.Getpagesize():])
	require.NoError(t, err)
	defer x.Close()
	if &x.Bytes()[0] != &mem[os.Getpagesize()] || x.Len() != len(mem)-os.Getpagesize() {
		t.Error("the buffer is not over the memory")
	}
	in := unsafe.Slice((*float32)(unsafe.Pointer(&x.Bytes()[0])), 16)
	out := unsafe.Slice((*float32)(unsafe.Pointer(&x.Bytes()[4096])), 16)
	copy(in, ramp(16))
	b.wait(b.encode(func(cb *CommandBuffer) {
		e := cb.Compute(false)
		e.SetPipeline(b.pipeline("add"))
		e.SetBuffer(0, x, 4)
		e.SetBuffer(1, x, 4096)
		e.SetBytes(2, shape(15, 0.5))
		e.Dispatch([3]int{1, 1, 1}, [3]int{32, 1, 1})
		e.End()
	}))
	for i := range 15 {
		if out[i] != float32(i)+1.5 {
			t.Fatalf("out[%d] = %v, want %v", i, out[i], float32(i)+1.5)
		}
	}
	if out[15] != 0 {
		t.Errorf("out[15] = %v, past the end", out[15])
	}
}

func TestBufferOverMisaligned(t *testing.T) {
	b := stand(t, standin.Options{Memory: 1 << 30})
	mem := pages(t, 2)
	for want, m := range map[string][]byte{
		"want a multiple of the page": mem[64:],
		"round up":                    mem[:100],
		"0 bytes, want more than 0":   nil,
	} {
		_, err := b.device.BufferOver(m)
		require.ErrorContains(t, err, want)
	}
}

// Memory that its owner unmaps while the GPU is to use it fails the command buffer.
func TestUnmappedTooSoon(t *testing.T) {
	b := stand(t, standin.Options{})
	mem, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	x, err := b.device.BufferOver(mem)
	require.NoError(t, err)
	defer x.Close()
	cb := b.encode(func(cb *CommandBuffer) {
		e := cb.Blit()
		e.Fill(x, 0, 8, 1)
		e.End()
	})
	require.NoError(t, unix.Munmap(mem))
	require.ErrorContains(t, cb.Wait(t.Context()), "unmapped before the GPU was done")
}

func TestBuffer(t *testing.T) {
	b := stand(t, standin.Options{Memory: 1 << 20})
	for n, want := range map[int]string{
		0: "0 bytes, want more than 0", -1: "-1 bytes, want more than 0",
		1<<20 + 1: "1048577 bytes, and the longest buffer of emulated GPU has 1048576 (maxBufferLength)",
	} {
		_, err := b.device.Buffer(n)
		require.ErrorContains(t, err, want)
	}
	x, err := b.device.Buffer(1 << 19)
	require.NoError(t, err)
	if b.device.Allocated() != 1<<19 {
		t.Errorf("%d bytes are allocated, want %d", b.device.Allocated(), 1<<19)
	}
	_, err = b.device.Buffer(1<<19 + 1)
	require.ErrorContains(t, err, "no memory for 524289 bytes")
	x.Close()
	if b.device.Allocated() != 0 {
		t.Errorf("%d bytes are allocated after Close", b.device.Allocated())
	}
}

// A buffer that is closed while the GPU is to use it stays until it was used.
func TestClosedInFlight(t *testing.T) {
	b := stand(t, standin.Options{})
	in, err := b.device.Buffer(64)
	require.NoError(t, err)
	copy(in.Bytes(), make([]byte, 64))
	out, values := b.floats(make([]float32, 16)...)
	cb := b.encode(func(cb *CommandBuffer) {
		e := cb.Compute(false)
		b.add(e, in, out, 1)
		e.End()
	})
	in.Close()
	b.wait(cb)
	if values[0] != 1 {
		t.Errorf("out[0] = %v, want 1", values[0])
	}
}

func TestHeap(t *testing.T) {
	b := stand(t, standin.Options{})
	size, align := b.device.HeapSize(1000)
	if size != 1024 || align != 256 {
		t.Errorf("1000 bytes take %d at multiples of %d, want 1024 and 256", size, align)
	}
	h, err := b.device.Heap(4 * size)
	require.NoError(t, err)
	defer h.Close()
	var buffers []*Buffer
	for range 4 {
		x, err := h.Buffer(1000)
		require.NoError(t, err)
		buffers = append(buffers, x)
	}
	if h.Used() != 4096 || h.Available() != 0 {
		t.Errorf("%d bytes are used and %d available of a full heap of 4096", h.Used(), h.Available())
	}
	_, err = h.Buffer(1)
	require.ErrorContains(t, err, "1 bytes, and the heap of 4096 has room for 0")
	copy(buffers[1].Bytes(), []byte{1, 2, 3})
	buffers[2].Close()
	again, err := h.Buffer(1024)
	require.NoError(t, err)
	if again.Bytes()[0] != 0xFF {
		t.Error("memory that is used again is not poisoned")
	}
	b.wait(b.encode(func(cb *CommandBuffer) {
		e := cb.Blit()
		e.Copy(again, 8, buffers[1], 0, 4)
		e.End()
	}))
	if got := again.Bytes()[8]; got != 1 {
		t.Errorf("copied %d, want 1", got)
	}
	for _, x := range append(buffers, again) {
		x.Close()
	}
	_, err = b.device.Heap(0)
	require.ErrorContains(t, err, "want more than 0")
	h.Close()
	_, err = h.Buffer(4)
	require.ErrorContains(t, err, "the heap is closed")
}
