package mtl

import (
	_ "embed"
	"math"
	"os"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gomoe/gomoe/internal/dynlib"
	"github.com/gomoe/gomoe/metal/internal/clangtest"
	"github.com/gomoe/gomoe/metal/internal/machine"
)

//go:embed testdata/callees.c
var callees string

// TestABI calls methods that clang has compiled for this architecture, by the driver's
// own code, with the structures that Metal passes by value and the results that are no
// integers. It needs no stand-in, so that an emulator of another processor can run it.
func TestABI(t *testing.T) {
	c := clangtest.Compiler(t)
	code, err := machine.Load(t.Context(), c.Path, callees)
	require.NoError(t, err)
	defer code.Close()
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(page)) }()
	self := unsafe.Slice((*uintptr)(unsafe.Pointer(&page[0])), 16)
	id := uintptr(unsafe.Pointer(&page[0]))
	runtime := func(name string) *Runtime {
		clear(self)
		send, err := code.Function(name)
		require.NoError(t, err)
		rt := &Runtime{send: send, double: dynlib.Double(send)}
		for i, selector := range []*uintptr{&rt.sel.dispatch, &rt.sel.fillBuffer, &rt.sel.copyBuffer, &rt.sel.gpuEnd, &rt.sel.heapBufferSizeAndAlign} {
			*selector = uintptr(1000 + i)
		}
		return rt
	}
	wrote := func(name string, want ...uintptr) {
		t.Helper()
		if !slices.Equal(self[:len(want)], want) {
			t.Errorf("%s was given %v, want %v", name, self[:len(want)], want)
		}
	}

	rt := runtime("dispatch")
	cb := &CommandBuffer{}
	e := &Compute{cb: cb, pipeline: &Pipeline{facts: PipelineFacts{MaxThreads: 1024}}}
	e.own(rt, id)
	cb.encoder = &e.object
	for range 2 { // the callee has written to its structures
		e.Dispatch([3]int{11, 7, 3}, [3]int{32, 4, 2})
		require.NoError(t, cb.err)
		wrote("dispatch", 1000, 11, 7, 3, 32, 4, 2)
	}
	const big = 1 << 40
	e.Dispatch([3]int{big, big + 1, 1}, [3]int{1, 1, 1})
	wrote("a large dispatch", 1000, big, big+1, 1, 1, 1, 1)

	x, y := &Buffer{bytes: make([]byte, 100)}, &Buffer{bytes: make([]byte, 50)}
	x.own(nil, 0x1111)
	y.own(nil, 0x2222)
	rt = runtime("fill")
	b := &Blit{cb: cb}
	b.own(rt, id)
	cb.encoder = &b.object
	b.Fill(x, 40, 60, 0xAB)
	wrote("fill", 1001, 0x1111, 40, 60, 0xAB)
	b.rt = runtime("copy")
	b.Copy(y, 8, x, 16, 32)
	wrote("copy", 1002, 0x1111, 16, 0x2222, 8, 32)
	require.NoError(t, cb.err)

	rt = runtime("seconds")
	cb.own(rt, id)
	for _, want := range []float64{0, 1.5, -2.25e300, math.Pi, math.Inf(1)} {
		self[0] = uintptr(math.Float64bits(want))
		if got := cb.GPUEnd(); got != want {
			t.Errorf("a double came back as %v, want %v", got, want)
		}
		wrote("seconds", uintptr(math.Float64bits(want)), 1003)
	}

	d := &Device{}
	d.own(runtime("heap"), id)
	if size, align := d.HeapSize(1001); size != 3003 || align != 5005 {
		t.Errorf("a structure of two words came back as %d, %d; want 3003, 5005", size, align)
	}
	wrote("heap", 1004, 1001, sharedStorage)

	rt = runtime("version")
	rt.msg3(id, 1005, [3]uintptr{14, 5, 1})
	wrote("version", 1005, 14, 5, 1)

	rt = runtime("boolean")
	self[0] = 0xDEADBE00
	for _, want := range []bool{true, false} {
		var v uintptr
		if want {
			v = 1
		}
		if r := rt.msg(id, 1, v); truth(r) != want {
			t.Errorf("a BOOL in a register of %#x is %v, want %v", r, truth(r), want)
		}
	}
	x.own(rt, 0) // they are no objects
	y.own(rt, 0)
}
