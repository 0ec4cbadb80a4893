package runtime_test

import (
	"bytes"
	"context"
	"errors"
	goruntime "runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/late"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// file is memory of the caller's with an array f64[8,4] in it.
type file struct {
	mem    []byte
	at     int
	back   atomic.Int32
	filled atomic.Int32
}

// newFile returns a file whose array begins so many bytes behind a multiple of 8.
func newFile(t *testing.T, at int) *file {
	x := ramp(32)
	f := &file{mem: array.New(graph.T(graph.F64, 33)).Bytes(), at: at}
	copy(f.mem[at:], x.Bytes())
	return f
}

// loan lends rows, which lie in one piece, and no columns.
func (f *file) loan() runtime.Loan {
	return runtime.Loan{
		Mem: func(p runtime.Part) []byte {
			if p.Type.Shape[1] < p.Whole.Shape[1] {
				return nil
			}
			return f.mem[f.at+p.Start[0]*32:][:p.Type.Bytes()]
		},
		Fill: func(p runtime.Part) error {
			f.filled.Add(1)
			return runtime.ReadAt(bytes.NewReader(f.mem), int64(f.at))(p)
		},
		Back: func() { f.back.Add(1) },
	}
}

// has reports whether memory is part of the file's.
func (f *file) has(mem []byte) bool {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	from := uintptr(unsafe.Pointer(unsafe.SliceData(f.mem)))
	return at >= from && at < from+uintptr(len(f.mem))
}

// doubles is 2·x of x f64[8,4], by a kernel that would write in place if it may.
func doubles(t *testing.T, place string, donate map[string]int) *lowering.Plan {
	t.Helper()
	return plan(t, trace(t, func(tr *graph.Tracer) []*graph.Value {
		return []*graph.Value{toy.Scale(2, tr.Input("x", graph.F64, 8, 4))}
	}), toy.Setup{Mesh: "a=2", Place: map[string]string{"x": place}, Donate: donate})
}

// Rows that lie in one piece are lent, shared by ranks that hold the same ones; columns, and memory at addresses where
// kernels cannot read numbers, are copied. Steps compute the same, and write to none of it.
func TestLend(t *testing.T) {
	for _, c := range []struct {
		place string
		at    int
		lent  int64 // bytes
		fills int32
	}{{"", 0, 512, 0}, {"a", 0, 256, 0}, {"_,a", 0, 0, 2}, {"", 4, 0, 1}, {"a", 4, 0, 2}} {
		f := newFile(t, c.at)
		before := slices.Clone(f.mem)
		s := open(t, doubles(t, c.place, nil), runtime.Options{})
		a, err := s.Lend("x", f.loan())
		require.NoError(t, err)
		if a.Lent() != c.lent || f.filled.Load() != c.fills {
			t.Errorf("%+v: %d bytes are lent and %d parts filled", c, a.Lent(), f.filled.Load())
		}
		if got, want := f.back.Load(), int32(0); c.lent == 0 {
			require.EqualValues(t, 1, got, "memory of which nothing is lent comes back")
		} else {
			require.Equal(t, want, got)
		}
		for i := range 2 {
			if p := toy.Part(t, a, i); f.has(p.Bytes()) != (c.lent > 0) {
				t.Errorf("%+v: part %d lies in the file: %v", c, i, f.has(p.Bytes()))
			}
		}
		for range 3 { // results take what memory there is
			out, err := s.Run(t.Context(), map[string]*runtime.Array{"x": a})
			require.NoError(t, err)
			y, err := out[0].Get()
			require.NoError(t, err)
			x, err := a.Get()
			require.NoError(t, err)
			want := x.Float64s()
			for i := range want {
				want[i] *= 2
			}
			require.Equal(t, want, y.Float64s())
			for i := range 2 {
				if f.has(toy.Part(t, out[0], i).Bytes()) {
					t.Errorf("%+v: a result lies in the file", c)
				}
			}
			s.Recycle(out...)
		}
		require.Equal(t, before, f.mem)
	}
}

// No way of giving memory away takes what is lent: recycled arrays give it back, donated ones are an error, and results do not
// replace it.
func TestLentIsNotTaken(t *testing.T) {
	f := newFile(t, 0)
	s := open(t, doubles(t, "a", map[string]int{"x": 0}), runtime.Options{})
	a, err := s.Lend("x", f.loan())
	require.NoError(t, err)
	_, err = s.Run(t.Context(), map[string]*runtime.Array{"x": a})
	require.EqualError(t, err, "runtime: input x of p is donated, and its memory is lent, which no step may write to; make the array with Put or PutParts")
	_, err = a.Get() // is not spent
	require.NoError(t, err)

	before := slices.Clone(f.mem)
	keep := open(t, doubles(t, "a", nil), runtime.Options{})
	out := []*runtime.Array{a} // RunInto recycles what was there
	require.NoError(t, keep.RunInto(t.Context(), map[string]*runtime.Array{"x": a}, out))
	require.EqualValues(t, 1, f.back.Load())
	require.Zero(t, a.Lent())
	for range 3 {
		next, err := keep.Run(t.Context(), map[string]*runtime.Array{"x": out[0]})
		require.NoError(t, err)
		keep.Recycle(out...)
		out = next
		if f.has(toy.Part(t, out[0], 0).Bytes()) {
			t.Error("a result lies in the file")
		}
	}
	require.Equal(t, before, f.mem)

	b, err := keep.Lend("x", f.loan())
	require.NoError(t, err)
	keep.Recycle(b, b)
	require.EqualValues(t, 2, f.back.Load())
	_, err = b.Get()
	require.ErrorContains(t, err, "its memory was recycled")
}

// Memory comes back when nobody refers to the array, and not before.
func TestLentComesBack(t *testing.T) {
	f := newFile(t, 0)
	s := open(t, doubles(t, "a", nil), runtime.Options{})
	a, err := s.Lend("x", f.loan())
	require.NoError(t, err)
	goruntime.GC()
	goruntime.GC()
	time.Sleep(10 * time.Millisecond)
	require.Zero(t, f.back.Load())
	_, err = s.Run(t.Context(), map[string]*runtime.Array{"x": a})
	require.NoError(t, err)
	a = nil
	require.Eventually(t, func() bool { goruntime.GC(); return f.back.Load() == 1 }, 10*time.Second, time.Millisecond)
}

func TestLendFails(t *testing.T) {
	f := newFile(t, 0)
	s := open(t, doubles(t, "a", nil), runtime.Options{})
	short := f.loan()
	short.Mem = func(runtime.Part) []byte { return f.mem[:100] }
	_, err := s.Lend("x", short)
	require.EqualError(t, err, "runtime: put input x of p: rank 0, f64[0:4,0:4] of f64[8,4]: 100 bytes are lent, want 128")
	require.EqualValues(t, 1, f.back.Load())
	_, err = s.Lend("none", f.loan())
	require.ErrorContains(t, err, `runtime: p has no input "none"`)
	require.EqualValues(t, 2, f.back.Load())
	_, err = s.Lend("x", runtime.Loan{Back: f.loan().Back})
	require.EqualError(t, err, "runtime: lend input x of p: Mem or Fill is nil, want both: parts that are not lent are filled")
	require.EqualValues(t, 3, f.back.Load())
	_, err = s.Lend("x", runtime.Loan{Mem: short.Mem, Fill: short.Fill})
	require.Error(t, err) // without Back
}

// An array that moves to another session is copied.
func TestReshardLent(t *testing.T) {
	f := newFile(t, 0)
	s := open(t, doubles(t, "a", nil), runtime.Options{})
	a, err := s.Lend("x", f.loan())
	require.NoError(t, err)
	to := open(t, doubles(t, "", map[string]int{"x": 0}), runtime.Options{})
	b, err := to.Reshard(context.Background(), "x", a)
	require.NoError(t, err)
	require.Zero(t, b.Lent())
	_, err = to.Run(t.Context(), map[string]*runtime.Array{"x": b})
	require.NoError(t, err)
	x, err := a.Get()
	require.NoError(t, err)
	require.Equal(t, ramp(32).Float64s(), x.Float64s())
}

// A device that sees what is lent reads it there, and gives it back before its owner does; ranks share
// it. For one that does not see it, it is copied once, and not for every step.
func TestLendToDevice(t *testing.T) {
	for _, refuse := range []error{nil, errors.New("no memory of others")} {
		f := newFile(t, 0)
		d := &late.Device{Refuse: refuse}
		s := on(t, d, trace(t, func(tr *graph.Tracer) []*graph.Value {
			return []*graph.Value{toy.Scale(2, tr.Input("x", graph.F64, 8, 4))}
		}), toy.Setup{Mesh: "a=2"}, runtime.Options{})
		before := d.Count()
		loan := f.loan()
		loan.Back = func() {
			f.back.Add(1)
			require.Equal(t, d.Count().Adopt, d.Count().Free, "the device has the memory of somebody else")
		}
		a, err := s.Lend("x", loan)
		require.NoError(t, err)
		for range 2 {
			out, err := s.Run(t.Context(), map[string]*runtime.Array{"x": a})
			require.NoError(t, err)
			y, err := out[0].Get()
			require.NoError(t, err)
			require.Equal(t, 2*ramp(32).Float64s()[31], y.Float64s()[31])
		}
		if refuse != nil {
			require.Zero(t, a.Lent())
			require.EqualValues(t, 1, f.filled.Load())
			require.EqualValues(t, 1, f.back.Load())
			continue
		}
		require.EqualValues(t, 2*256, a.Lent()) // of each rank
		require.Zero(t, f.filled.Load())
		require.Equal(t, before.Adopt+1, d.Count().Adopt)
		require.Zero(t, f.back.Load())
		s.Recycle(a)
		require.EqualValues(t, 1, f.back.Load())
	}
}

// What a device that has failed may still read is never given back.
func TestLentToStuckDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := newFile(t, 0), &late.Device{Stuck: make(chan struct{})}
		s := on(t, d, trace(t, func(tr *graph.Tracer) []*graph.Value {
			return []*graph.Value{toy.Scale(2, tr.Input("x", graph.F64, 8, 4))}
		}), toy.Setup{}, runtime.Options{})
		a, err := s.Lend("x", f.loan())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.Run(ctx, map[string]*runtime.Array{"x": a})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		s.Recycle(a)
		require.Zero(t, f.back.Load())
		close(d.Stuck)
	})
}

// rowwise returns x by a kernel that reads the indices of dimension 0 one after another.
type rowwise struct{}

func (rowwise) Name() string                                           { return "rowwise" }
func (rowwise) Infer(in []graph.Type) ([]graph.Type, error)            { return in, nil }
func (rowwise) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }
func (rowwise) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), 1, 1, 0))
}

func (rowwise) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: toy.Op("rowwise"), Out: out, In: in, Slabs: []int{0}, Kernel: func(a *exec.Args) error {
		for i := range a.Out[0].Type.Shape[0] {
			copy(a.Out[0].Slab(i), a.In[0].Slab(i))
		}
		return nil
	}})
}

// rowwisePlan returns a plan that reads x row by row, and with `also` otherwise too.
func rowwisePlan(t *testing.T, place string, also func(x *graph.Value) *graph.Value) *lowering.Plan {
	t.Helper()
	return plan(t, trace(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F64, 8, 4)
		out := []*graph.Value{graph.Apply1(rowwise{}, x)}
		if also != nil {
			out = append(out, also(x))
		}
		return out
	}), toy.Setup{Mesh: "a=2", Place: map[string]string{"x": place}})
}

// Rows that lie apart are lent where all kernels read them one by one, and copied where one does not; such a plan takes no array
// that another has lent so. What moves or is returned is in one piece.
func TestLendSlabs(t *testing.T) {
	f := newFile(t, 0)
	l := f.loan()
	l.Mem = func(runtime.Part) []byte { return nil }
	l.Slabs = func(p runtime.Part) (rows [][]byte) {
		for i := range p.Type.Shape[0] {
			rows = append(rows, f.mem[(7-p.Start[0]-i)*32:][:32]) // backwards
		}
		return rows
	}
	s := open(t, rowwisePlan(t, "a", nil), runtime.Options{Compare: 1})
	lent, own, err := s.Takes("x", l)
	require.NoError(t, err)
	require.Equal(t, []int64{256, 0}, []int64{lent, own})
	a, err := s.Lend("x", l)
	require.NoError(t, err)
	require.EqualValues(t, 256, a.Lent())
	require.Zero(t, f.filled.Load())
	var want []float64
	for _, row := range slices.Backward(slices.Collect(slices.Chunk(ramp(32).Float64s(), 4))) {
		want = append(want, row...)
	}
	out, err := s.Run(t.Context(), map[string]*runtime.Array{"x": a})
	require.NoError(t, err)
	for _, x := range []*runtime.Array{a, out[0]} {
		got, err := x.Get()
		require.NoError(t, err)
		require.Equal(t, want, got.Float64s())
	}
	require.Equal(t, want[:16], toy.Part(t, a, 0).Float64s())

	for name, also := range map[string]func(*graph.Value) *graph.Value{
		"another kernel": func(x *graph.Value) *graph.Value { return toy.Scale(2, x) }, "a result": func(x *graph.Value) *graph.Value { return x },
	} {
		to := open(t, rowwisePlan(t, "a", also), runtime.Options{})
		_, err = to.Run(t.Context(), map[string]*runtime.Array{"x": a})
		require.EqualError(t, err, "runtime: input x of p: the array was lent in slabs, and this plan reads it in one piece; lend it by a session of this plan", name)
		lent, own, err := to.Takes("x", l)
		require.NoError(t, err)
		require.Equal(t, []int64{0, 256}, []int64{lent, own}, name)
		before := f.filled.Load()
		b, err := to.Lend("x", l)
		require.NoError(t, err)
		require.Zero(t, b.Lent(), name)
		require.Equal(t, before+2, f.filled.Load(), name)
		moved, err := to.Reshard(t.Context(), "x", a)
		require.NoError(t, err)
		got, err := moved.Get()
		require.NoError(t, err)
		require.Equal(t, want, got.Float64s(), name)
	}

	require.Equal(t, []bool{true}, rowwisePlan(t, "", nil).Slabs())
	require.Equal(t, []bool{false}, rowwisePlan(t, "", toy.Flatten).Slabs(), "the view has the memory")

	few, short := l, l
	few.Slabs = func(p runtime.Part) [][]byte { return l.Slabs(p)[:3] }
	_, err = s.Lend("x", few)
	require.EqualError(t, err, "runtime: put input x of p: rank 0, f64[0:4,0:4] of f64[8,4]: 3 slabs are lent, want 4")
	short.Slabs = func(p runtime.Part) [][]byte { x := l.Slabs(p); x[1] = x[1][:24]; return x }
	_, err = s.Lend("x", short)
	require.EqualError(t, err, "runtime: put input x of p: rank 0, f64[0:4,0:4] of f64[8,4]: slab 1 of 24 bytes is lent, want 32")
	_, _, err = s.Takes("x", short)
	require.ErrorContains(t, err, "slab 1 of 24 bytes is lent")
	_, _, err = s.Takes("none", l)
	require.ErrorContains(t, err, `has no input "none"`)
	off := l
	off.Slabs = func(p runtime.Part) [][]byte { x := l.Slabs(p); x[0] = f.mem[4:36]; return x }
	b, err := s.Lend("x", off)
	require.NoError(t, err)
	require.Zero(t, b.Lent(), "kernels cannot read from there")
}
