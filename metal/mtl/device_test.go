package mtl

import (
	"context"
	_ "embed"
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/clangtest"
	"github.com/gomoe/gomoe/metal/internal/standin"
)

//go:embed testdata/kernels.metal
var kernels string

// bench is a device of the stand-in, with a queue and a library.
type bench struct {
	testing.TB
	standin *standin.Standin
	rt      *Runtime
	device  *Device
	queue   *CommandQueue
	library *Library
	bad     []string // violations that the test wants, in part, in order
	outside int      // objects that the test autoreleases outside of pools
}

// stand opens a stand-in and looks, at the test's end, that nothing was against the
// rules, nothing was left behind and nothing was autoreleased outside of a pool.
func stand(t testing.TB, o standin.Options) *bench {
	t.Helper()
	c := clangtest.Compiler(t)
	b := &bench{TB: t}
	var err error
	b.standin, err = standin.Open(t.Context(), c, o)
	require.NoError(t, err)
	t.Cleanup(b.check)
	b.rt, err = Load(b.standin.Handle(), b.standin.Handle())
	require.NoError(t, err)
	if o.Absent {
		return b
	}
	b.device, err = b.rt.Device()
	require.NoError(t, err)
	t.Cleanup(b.device.Close)
	b.queue, err = b.device.CommandQueue()
	require.NoError(t, err)
	t.Cleanup(b.queue.Close)
	b.library, err = b.device.Library(kernels, Options{})
	require.NoError(t, err)
	return b
}

func (b *bench) check() {
	r := b.standin.Close()
	if len(r.Live()) != 0 {
		b.Errorf("left behind: %v", r.Live())
	}
	if r.NoPool() != b.outside {
		b.Errorf("%d objects were autoreleased outside of a pool", r.NoPool())
	}
	if len(r.Violations()) != len(b.bad) {
		b.Errorf("violations %q, want %q", r.Violations(), b.bad)
		return
	}
	for i, want := range b.bad {
		require.Contains(b, r.Violations()[i], want)
	}
}

func (b *bench) pipeline(name string, constants ...Constant) *Pipeline {
	b.Helper()
	p, err := b.device.Pipeline(b.library, name, constants...)
	require.NoError(b, err)
	return p
}

// floats returns a buffer of values and how to look at it.
func (b *bench) floats(values ...float32) (*Buffer, []float32) {
	b.Helper()
	x, err := b.device.Buffer(4 * len(values))
	require.NoError(b, err)
	b.Cleanup(x.Close)
	view := unsafe.Slice((*float32)(unsafe.Pointer(&x.Bytes()[0])), len(values))
	copy(view, values)
	return x, view
}

// encode commits what f encodes, and closes it when the test ends.
func (b *bench) encode(f func(*CommandBuffer)) *CommandBuffer {
	b.Helper()
	cb, err := b.queue.Encode(b.Name(), func(cb *CommandBuffer) error { f(cb); return nil })
	require.NoError(b, err)
	b.Cleanup(cb.Close)
	return cb
}

func (b *bench) wait(cb *CommandBuffer) {
	b.Helper()
	require.NoError(b, cb.Wait(b.Context()))
}

// shape is a Shape of the kernels.
func shape(n int, add float32) []byte {
	s := binary.LittleEndian.AppendUint32(nil, uint32(n))
	return binary.LittleEndian.AppendUint32(s, math.Float32bits(add))
}

// add encodes out = in + x.
func (b *bench) add(e *Compute, in, out *Buffer, x float32) {
	n := in.Len() / 4
	e.SetPipeline(b.pipeline("add"))
	e.SetBuffer(0, in, 0)
	e.SetBuffer(1, out, 0)
	e.SetBytes(2, shape(n, x))
	e.Dispatch([3]int{(n + 31) / 32, 1, 1}, [3]int{32, 1, 1})
}

func ramp(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i)
	}
	return x
}

func TestDevice(t *testing.T) {
	b := stand(t, standin.Options{Memory: 1 << 30})
	f := b.device.Facts()
	if f.Name != "emulated GPU" || b.device.Name() != f.Name {
		t.Errorf("name %q", f.Name)
	}
	// All BOOLs come with dirt above their 8 bits.
	if !f.Unified || f.Family != 9 || !f.Metal3 {
		t.Errorf("unified %v, family Apple %d, Metal 3 %v; want true, 9, true", f.Unified, f.Family, f.Metal3)
	}
	if b.device.MaxThreadgroupMemory() != 32768 || b.device.RecommendedWorkingSet() != 1<<30 || f.BufferLength != 1<<30 {
		t.Errorf("facts %+v", f)
	}
}

func TestNoDevice(t *testing.T) {
	b := stand(t, standin.Options{Absent: true})
	_, err := b.rt.Device()
	require.ErrorIs(t, err, ErrNoMetal)
}

// Nothing has run before the wait, as on a GPU that is behind, and everything after it.
func TestReadBeforeWait(t *testing.T) {
	b := stand(t, standin.Options{})
	in, _ := b.floats(ramp(100)...)
	out, view := b.floats(make([]float32, 100)...)
	for i := range view {
		view[i] = float32(math.NaN())
	}
	cb := b.encode(func(cb *CommandBuffer) {
		e := cb.Compute(false)
		b.add(e, in, out, 1)
		e.End()
	})
	if !math.IsNaN(float64(view[7])) || cb.Status() != Committed {
		t.Errorf("before the wait it is %v, and the command buffer %s", view[7], cb.Status())
	}
	b.wait(cb)
	for i, v := range view {
		if v != float32(i)+1 {
			t.Fatalf("out[%d] = %v, want %v", i, v, i+1)
		}
	}
	if cb.Status() != Completed || cb.Err() != nil {
		t.Errorf("status %s, error %v", cb.Status(), cb.Err())
	}
	if cb.GPUStart() <= 0 || cb.GPUEnd() < cb.GPUStart() || cb.GPUEnd() > cb.GPUStart()+60 {
		t.Errorf("the GPU ran from %v to %v", cb.GPUStart(), cb.GPUEnd())
	}
}

// A new buffer is poisoned, and what was never written stays so.
func TestPoison(t *testing.T) {
	b := stand(t, standin.Options{})
	x, err := b.device.Buffer(8)
	require.NoError(t, err)
	defer x.Close()
	if !slices.Equal(x.Bytes(), slices.Repeat([]byte{0xFF}, 8)) {
		t.Errorf("a new buffer has %x", x.Bytes())
	}
}

func TestPositions(t *testing.T) {
	b := stand(t, standin.Options{})
	groups, threads := [3]int{3, 2, 4}, [3]int{4, 3, 2}
	n := 12 * 6 * 8
	x, err := b.device.Buffer(4 * (3*n + 3))
	require.NoError(t, err)
	defer x.Close()
	b.wait(b.encode(func(cb *CommandBuffer) {
		e := cb.Compute(false)
		e.SetPipeline(b.pipeline("positions"))
		e.SetBuffer(0, x, 0)
		e.Dispatch(groups, threads)
		e.End()
	}))
	got := unsafe.Slice((*uint32)(unsafe.Pointer(&x.Bytes()[0])), 3*n+3)
	for i := range n {
		want := []uint32{uint32(i % 12), uint32(i / 12 % 6), uint32(i / 72)}
		if !slices.Equal(got[3*i:3*i+3], want) {
			t.Fatalf("thread %d is at %v, want %v", i, got[3*i:3*i+3], want)
		}
	}
	if !slices.Equal(got[3*n:], []uint32{4, 3, 2}) {
		t.Errorf("groups of %v threads, want 4 3 2", got[3*n:])
	}
}

func TestConstants(t *testing.T) {
	b := stand(t, standin.Options{})
	in, _ := b.floats(ramp(32)...)
	twice, minus := []Constant{{0, int32(2)}, {1, false}}, []Constant{{1, true}, {0, int32(-70000)}}
	for range 2 {
		for _, c := range []struct {
			constants []Constant
			factor    float32
		}{{twice, 2}, {minus, 70000}} {
			out, view := b.floats(make([]float32, 32)...)
			b.wait(b.encode(func(cb *CommandBuffer) {
				e := cb.Compute(false)
				e.SetPipeline(b.pipeline("multiply", c.constants...))
				e.SetBuffer(0, in, 0)
				e.SetBuffer(1, out, 0)
				e.Dispatch([3]int{1, 1, 1}, [3]int{32, 1, 1})
				e.End()
			}))
			for i, v := range view {
				if v != float32(i)*c.factor {
					t.Fatalf("out[%d] = %v, want %v", i, v, float32(i)*c.factor)
				}
			}
		}
	}
	if b.pipeline("multiply", twice...) != b.pipeline("multiply", twice[1], twice[0]) {
		t.Error("the same constants in another order make another pipeline")
	}
	if b.pipeline("multiply", twice...) == b.pipeline("multiply", minus...) {
		t.Error("other constants give the same pipeline")
	}
}

// within is a context with a deadline.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
