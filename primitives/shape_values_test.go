package primitives_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// shapeCase is a function of shape primitives, and its result for small
// integers.
type shapeCase struct {
	name string
	fn   func(t *graph.Tracer, x *graph.Value) *graph.Value
	in   []float64
	dims []int
	want []float64
	out  []int
}

// The values come from jax.numpy and jax.lax.
func shapeCases() []shapeCase {
	scalar := func(t *graph.Tracer, x float64, d graph.DType) *graph.Value {
		return t.Apply(graph.FullOp{Value: x, DType: d})[0]
	}
	index := func(t *graph.Tracer, is ...int) *graph.Value {
		parts := make([]*graph.Value, len(is))
		for k, i := range is {
			parts[k] = t.Apply(graph.FullOp{Value: float64(i), DType: graph.I32, Shape: []int{1}})[0]
		}
		return primitives.Concatenate(0, parts...)
	}
	six, x23 := []float64{0, 1, 2, 3, 4, 5}, []int{2, 3}
	return []shapeCase{
		{"transpose", func(_ *graph.Tracer, x *graph.Value) *graph.Value { return primitives.Transpose(x, 1, 0) },
			six, x23, []float64{0, 3, 1, 4, 2, 5}, []int{3, 2}},
		{"broadcast_to", func(_ *graph.Tracer, x *graph.Value) *graph.Value { return primitives.BroadcastTo(x, 2, 2, 3) },
			six[:3], []int{1, 3}, []float64{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}, []int{2, 2, 3}},
		{"concatenate", func(_ *graph.Tracer, x *graph.Value) *graph.Value { return primitives.Concatenate(1, x, x) },
			six, x23, []float64{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}, []int{2, 6}},
		{"slice", func(_ *graph.Tracer, x *graph.Value) *graph.Value {
			return primitives.Slice(x, []int{1, 0}, []int{2, 3}, 1, 2)
		}, six, x23, []float64{3, 5}, []int{1, 2}},
		{"slice axis", func(_ *graph.Tracer, x *graph.Value) *graph.Value { return primitives.SliceInDim(x, 1, 1, 3) },
			six, x23, []float64{1, 2, 4, 5}, []int{2, 2}},
		{"pad", func(t *graph.Tracer, x *graph.Value) *graph.Value {
			return primitives.Pad(x, scalar(t, 1, x.Type.DType), []int{1, -1}, []int{0, 1}, 0, 1)
		}, six, x23, []float64{1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 4, 1, 5, 1}, []int{3, 5}},
		{"pad to nothing", func(t *graph.Tracer, x *graph.Value) *graph.Value {
			return primitives.Pad(x, scalar(t, 1, x.Type.DType), []int{-2}, []int{0}, 3)
		}, six[:1], []int{1}, nil, nil},
		{"rev", func(_ *graph.Tracer, x *graph.Value) *graph.Value { return primitives.Reverse(x, 1) },
			six, x23, []float64{2, 1, 0, 5, 4, 3}, x23},
		{"dynamic_slice", func(t *graph.Tracer, x *graph.Value) *graph.Value {
			return primitives.DynamicSlice(x, []*graph.Value{scalar(t, -4, graph.I32), scalar(t, 7, graph.I32)}, 1, 2)
		}, six, x23, []float64{1, 2}, []int{1, 2}},
		{"dynamic_update_slice", func(t *graph.Tracer, x *graph.Value) *graph.Value {
			return primitives.DynamicUpdateSlice(x, primitives.SliceInDim(x, 1, 0, 2), scalar(t, -1, graph.I32), scalar(t, 5, graph.I32))
		}, six, x23, []float64{0, 0, 1, 3, 3, 4}, x23},
		{"gather", func(t *graph.Tracer, x *graph.Value) *graph.Value {
			return primitives.Gather(x, index(t, 2, 0, 2, 1), 1)
		}, six, x23, []float64{2, 0, 2, 1, 5, 3, 5, 4}, []int{2, 4}},
		{"gather rows", func(t *graph.Tracer, x *graph.Value) *graph.Value {
			return primitives.Gather(x, primitives.Reshape(index(t, 1, 1), 1, 2), 0)
		}, six, x23, []float64{3, 4, 5, 3, 4, 5}, []int{1, 2, 3}},
	}
}

var allTypes = []graph.DType{graph.Bool, graph.U8, graph.U32, graph.I32, graph.I64, graph.F16, graph.BF16, graph.F32, graph.F64}

// TestShapeValues runs the cases in every element type.
func TestShapeValues(t *testing.T) {
	for _, c := range shapeCases() {
		for _, d := range allTypes {
			p, err := graph.Trace("p", func(t *graph.Tracer) []*graph.Value {
				return []*graph.Value{c.fn(t, t.Input("x", d, c.dims...))}
			})
			if c.out == nil {
				require.Error(t, err, c.name)
				continue
			}
			require.NoError(t, err, c.name)
			got, err := gomoe.Run(context.Background(), p, gomoe.Config{}, map[string]array.Array{"x": of(graph.T(d, c.dims...), c.in)})
			require.NoError(t, err, c.name)
			if want := of(graph.T(d, c.out...), c.want); !array.Equal(got[0], want) {
				t.Errorf("%s of %s: got %v, want %v", c.name, d, got[0], want)
			}
		}
	}
}

// TestShapeBits moves elements with bits that arithmetic would change: NaNs with a
// payload and negative zeros.
func TestShapeBits(t *testing.T) {
	p, err := gomoe.Parse("bits", "program p(x f32[2,3]) {\n a = transpose(x) permutation=[1,0]\n b = rev(a) dimensions=[0]\n c = reshape(b) shape=[6]\n i = iota() dtype=i32 shape=[6]\n d = gather(c, i)\n return d\n}")
	require.NoError(t, err)
	x := array.New(graph.T(graph.F32, 2, 3))
	want := array.New(graph.T(graph.F32, 6))
	words := []uint32{0x7fc12345, 0xff812345, 0x80000000, 0x00000001, 0xffffffff, 0x7f800001}
	for i, w := range words {
		put(x, i, w)
	}
	for i, k := range []int{2, 5, 1, 4, 0, 3} {
		put(want, i, words[k])
	}
	got, err := gomoe.Run(context.Background(), p, gomoe.Config{}, map[string]array.Array{"x": x})
	require.NoError(t, err)
	if !array.Equal(got[0], want) {
		t.Errorf("got %x, want %x", got[0].Bytes(), want.Bytes())
	}
}

// put sets the bits of element i, of 4 bytes.
func put(a array.Array, i int, bits uint32) {
	b := array.Over(graph.T(graph.U32, a.Type.Len()), a.Bytes())
	array.Data[uint32](b)[i] = bits
}

// TestTransposeLarge crosses the borders of the tiles that transpositions and
// strided copies run in, with threads and without.
func TestTransposeLarge(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for range 60 {
		shape := []int{1 + rng.IntN(3), 1 + rng.IntN(70), 1 + rng.IntN(3), 1 + rng.IntN(70)}
		perm := rng.Perm(4)
		typ := graph.T([]graph.DType{graph.U8, graph.BF16, graph.F32, graph.I64}[rng.IntN(4)], shape...)
		p, err := graph.Trace("p", func(t *graph.Tracer) []*graph.Value {
			return []*graph.Value{primitives.Transpose(t.Input("x", typ.DType, shape...), perm...)}
		})
		require.NoError(t, err)
		x := array.New(typ)
		for i := range x.Bytes() {
			x.Bytes()[i] = byte(rng.Uint32())
		}
		cfg := gomoe.Config{}
		cfg.Threads = 1 + rng.IntN(4)
		got, err := gomoe.Run(context.Background(), p, cfg, map[string]array.Array{"x": x})
		require.NoError(t, err)
		size := typ.DType.Size()
		var idx [4]int
		for i := range typ.Len() {
			rest := i
			for d := 3; d >= 0; d-- {
				idx[d] = rest % shape[perm[d]]
				rest /= shape[perm[d]]
			}
			from := 0
			for d := range 4 {
				at := 0
				for k := range 4 {
					if perm[k] == d {
						at = idx[k]
					}
				}
				from = from*shape[d] + at
			}
			if string(got[0].Bytes()[i*size:(i+1)*size]) != string(x.Bytes()[from*size:(from+1)*size]) {
				t.Fatalf("%s by %v: element %d is not element %d of the argument", typ, perm, i, from)
			}
		}
	}
}

func TestIotaTypes(t *testing.T) {
	for _, d := range allTypes[1:] {
		p, err := graph.Trace("p", func(t *graph.Tracer) []*graph.Value {
			return []*graph.Value{primitives.Iota(t, d, 0, 300), primitives.Iota(t, d, 1, 2, 3)}
		})
		require.NoError(t, err)
		got, err := gomoe.Run(context.Background(), p, gomoe.Config{}, nil)
		require.NoError(t, err)
		want := make([]int64, 300)
		for i := range want {
			want[i] = int64(i)
		}
		w, err := array.Of(want, 300)
		require.NoError(t, err)
		if !array.Equal(got[0], w.As(d)) {
			t.Errorf("iota of %s: got %v", d, got[0])
		}
		if small := of(graph.T(d, 2, 3), []float64{0, 1, 2, 0, 1, 2}); !array.Equal(got[1], small) {
			t.Errorf("iota of %s: got %v, want %v", d, got[1], small)
		}
	}
}

func TestOneHotTypes(t *testing.T) {
	for _, d := range allTypes {
		p, err := graph.Trace("p", func(t *graph.Tracer) []*graph.Value {
			return []*graph.Value{primitives.OneHot(t.Input("i", graph.I32, 4), 3, d)}
		})
		require.NoError(t, err)
		got, err := gomoe.Run(context.Background(), p, gomoe.Config{}, map[string]array.Array{"i": of(graph.T(graph.I32, 4), []float64{2, -1, 3, 0})})
		require.NoError(t, err)
		if want := of(graph.T(d, 4, 3), []float64{0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0}); !array.Equal(got[0], want) {
			t.Errorf("one_hot of %s: got %v, want %v", d, got[0], want)
		}
	}
}

// TestShapeDirtyMemory runs steps in memory that an earlier step has written to.
func TestShapeDirtyMemory(t *testing.T) {
	p, err := gomoe.Parse("dirty", "program p(i i32[4], x f64[2,3]) {\n h = one_hot(i) num_classes=3 dtype=f64\n e = exp(h)\n v = full() value=2 dtype=f64\n q = pad(x, v) low=[1,0] high=[1,0]\n f = exp(q)\n y = add(e, f)\n return y\n}")
	require.NoError(t, err)
	j, err := gomoe.Open(t.Context(), p, gomoe.Config{})
	require.NoError(t, err)
	defer j.Close()
	in := map[string]array.Array{"i": of(graph.T(graph.I32, 4), []float64{2, -1, 3, 0}), "x": array.New(graph.T(graph.F64, 2, 3))}
	first, err := j.Step(context.Background(), in)
	require.NoError(t, err)
	second, err := j.Step(context.Background(), in)
	require.NoError(t, err)
	if !array.Equal(first[0], second[0]) {
		t.Errorf("the second step gives %v, the first %v", second[0], first[0])
	}
}

// TestPadLarge spreads rows and columns that are longer than a tile, and takes
// them out again.
func TestPadLarge(t *testing.T) {
	p, err := gomoe.Parse("pad", "program p(x f32[70,45], v f32[]) {\n y = pad(x, v) low=[1,2] high=[0,1] interior=[1,2]\n z = slice(y) start_indices=[1,2] limit_indices=[140,135] strides=[2,3]\n s = reduce_sum(y) axes=[0,1]\n return z, s\n}")
	require.NoError(t, err)
	x := ints(-9, 9)(rand.New(rand.NewPCG(1, 1)), graph.T(graph.F32, 70, 45))
	got, err := gomoe.Run(context.Background(), p, gomoe.Config{}, map[string]array.Array{"x": x, "v": array.Scalar(float32(0))})
	require.NoError(t, err)
	if !array.Equal(got[0], x) {
		t.Error("the strided slice of the padded array is not the array")
	}
	sum := 0.0
	for _, v := range x.Float64s() {
		sum += v
	}
	if got := got[1].Float64s()[0]; got != sum {
		t.Errorf("the padded array sums to %g, want %g", got, sum)
	}
}
