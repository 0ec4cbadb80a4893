package primitives_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

func TestShapeErrors(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"y = reshape(x) shape=[5]", "shape [5] for 12 elements; the product of the sizes is the number of elements"},
		{"y = reshape(x) shape=[-3,-4]", "shape [-3 -4] for 12 elements"},
		{"y = transpose(x) permutation=[0]", "permutation [0] of 2 dimensions, want each of them once"},
		{"y = transpose(x) permutation=[1,1]", "permutation [1 1] of 2 dimensions, want each of 0 to 1 once"},
		{"y = broadcast_in_dim(x) shape=[3,5] dims=[0,1]", "dimension 1 of size 4 cannot become dimension 1 of [3 5]; want size 5 or 1"},
		{"y = concatenate(x, v)", "argument 1 has 0 dimensions and argument 0 has 2; want the same number"},
		{"y = concatenate(x, w)", "dimension 1 of argument 1 has size 5, want 4 as argument 0; sizes differ along dimension 0 only"},
		{"y = concatenate(x, n) dimension=1", "element types f32 and i32 differ; convert one with convert_element_type"},
		{"y = concatenate(x) dimension=2", "axis 2 of f32[3,4], want 0 to 1"},
		{"y = slice(x) start_indices=[0] limit_indices=[3,4]", "1 start_indices, 2 limit_indices and 0 strides for 2 dimensions"},
		{"y = slice(x) start_indices=[0,2] limit_indices=[3,5]", "dimension 1 from 2 to 5, want 0 <= start <= limit <= 4"},
		{"y = slice(x) start_indices=[0,0] limit_indices=[3,4] strides=[1,-1]", "dimension 1 with stride -1, want at least 1; reverse with rev"},
		{"y = pad(x, n) low=[0,0] high=[0,0]", "the padding is i32[3,4], want the scalar f32[]"},
		{"y = pad(x, v) low=[0] high=[0,0]", "1 low, 2 high and 0 interior for 2 dimensions"},
		{"y = pad(x, v) low=[0,-5] high=[0,0]", "dimension 1 of size 4 with low -5, high 0 and interior 0 is left with size -1, want at least 0"},
		{"y = pad(x, v) low=[0,0] high=[0,0] interior=[0,-1]", "dimension 1 with interior -1, want at least 0"},
		{"y = rev(x) dimensions=[1,0]", "axes [1 0], want them distinct and ascending"},
		{"y = full() value=1.5 dtype=i32", "value=1.5, want one that i32 has"},
		{"y = full() value=256 dtype=u8", "value=256, want one that u8 has"},
		{"y = full() value=-1 dtype=u32", "value=-1, want one that u32 has"},
		{"y = full() value=1e+19 dtype=i64", "want one that i64 has"},
		{"y = full() value=nan dtype=i32", "value=NaN, want one that i32 has"},
		{"y = full() value=2 dtype=bool", "value=2, want one that bool has"},
		{"y = iota() shape=[3]", "dtype is missing; write dtype=i32"},
		{"y = iota() dtype=bool shape=[3]", "element type bool cannot count"},
		{"y = iota() dtype=i32 shape=[3] dimension=1", "axis 1 of i32[3], want 0 to 0"},
		{"y = dynamic_slice(x, i) slice_sizes=[1,1]", "1 start indices for 2 dimensions, want one for each"},
		{"y = dynamic_slice(x, i, v) slice_sizes=[1,1]", "start index 1 is f32[], want the scalar i32[]"},
		{"y = dynamic_slice(x, i, i) slice_sizes=[1,5]", "slice size 5 in dimension 1, want 0 to 4"},
		{"y = dynamic_update_slice(x, w, i, i)", "update f32[3,5] is larger than f32[3,4] in dimension 1, want at most 4"},
		{"y = dynamic_update_slice(x, n, i, i)", "update i32[3,4] of f32[3,4], want the same element type and number of dimensions"},
		{"y = gather(x, v)", "indices are f32, want i32; convert with convert_element_type"},
		{"y = gather(x, i) axis=-1", "axis -1 of f32[3,4], want 0 to 1"},
		{"y = scatter_add(x, n, w)", "updates are f32[3,5], want f32[3,4,4]: those of the argument with the dimensions of the indices in the place of axis 0"},
		{"y = scatter_add(b, i, b)", "element type bool cannot be added"},
		{"y = one_hot(x) num_classes=3 dtype=f32", "indices are f32, want i32"},
		{"y = one_hot(n) num_classes=-3 dtype=f32", "num_classes -3, want at least 0"},
		{"y = one_hot(n) num_classes=3", "dtype is missing; write dtype=f32"},
		{"y = sharding_constraint(x) spec=\"a,b,c\"", "the placement a,b,c has 3 entries for 2 dimensions, want at most one for each"},
		{"y = sharding_constraint(x) spec=\"a,b.a\"", "the placement a,b.a uses axis a twice, want it once"},
		{"y = sharding_constraint(x) spec=\"a,+\"", "\"+\" is no axis name"},
	} {
		_, err := gomoe.Parse("shape", "program p(x f32[3,4], w f32[3,5], n i32[3,4], v f32[], i i32[], b bool[]) {\n "+c.src+"\n return y\n}")
		if err == nil || !strings.HasPrefix(err.Error(), "shape:2: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n%v\nwant shape:2: ... %s", c.src, err, c.want)
		}
	}
}

func TestShapeBuilderErrors(t *testing.T) {
	for _, c := range []struct {
		want  string
		build func(t *graph.Tracer, x *graph.Value) *graph.Value
	}{
		{"shape_infer_test.go:70: slice of f32[3,4]: axis 2, want 0 to 1", func(_ *graph.Tracer, x *graph.Value) *graph.Value { return primitives.SliceInDim(x, 2, 0, 1) }},
		{"broadcast of f32[3,4] to [4]: the result has fewer dimensions, want at least 2", func(_ *graph.Tracer, x *graph.Value) *graph.Value { return primitives.BroadcastTo(x, 4) }},
		{"concatenate of nothing, want at least one value", func(*graph.Tracer, *graph.Value) *graph.Value { return primitives.Concatenate(0) }},
		{"is no axis name", func(_ *graph.Tracer, x *graph.Value) *graph.Value { return primitives.ShardingConstraint(x, "a+b") }},
	} {
		_, err := graph.Trace("p", func(t *graph.Tracer) []*graph.Value {
			return []*graph.Value{c.build(t, t.Input("x", graph.F32, 3, 4))}
		})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// TestShapeInferAnything gives the shape family random parameters, some of them absurd.
// Infer returns types that fit, or an error.
func TestShapeInferAnything(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 2))
	number := func() int {
		absurd := []int{math.MaxInt, math.MinInt, math.MaxInt32, 1 << 40, -1 << 40, 1 << 62, -1}
		if rng.IntN(5) == 0 {
			return absurd[rng.IntN(len(absurd))]
		}
		return rng.IntN(5)
	}
	list := func() []int {
		l := make([]int, rng.IntN(4))
		for i := range l {
			l[i] = number()
		}
		return l
	}
	dtype := func() graph.DType { return graph.DType(rng.IntN(11)) }
	ok := map[string]int{}
	for range 60000 {
		prims := []graph.Primitive{
			primitives.ReshapeOp{Shape: list()}, primitives.BroadcastInDimOp{Shape: list(), Dims: list()}, primitives.TransposeOp{Permutation: list()},
			primitives.ConcatenateOp{Dimension: number()}, primitives.SliceOp{StartIndices: list(), LimitIndices: list(), Strides: list()},
			primitives.PadOp{Low: list(), High: list(), Interior: list()}, primitives.ReverseOp{Dimensions: list()},
			primitives.IotaOp{DType: dtype(), Shape: list(), Dimension: number()}, primitives.DynamicSliceOp{SliceSizes: list()}, primitives.DynamicUpdateSliceOp{},
			primitives.GatherOp{Axis: number()}, primitives.ScatterAddOp{Axis: number()}, primitives.OneHotOp{NumClasses: number(), DType: dtype()},
			primitives.ShardingConstraintOp{Spec: []string{"", "a", "a,b", "a,,b", ",", "a.a", "a.", "..", "_,_,_,_"}[rng.IntN(9)]},
		}
		p := prims[rng.IntN(len(prims))]
		in := make([]graph.Type, rng.IntN(4))
		for i := range in {
			in[i] = graph.Type{DType: 1 + graph.DType(rng.IntN(9))}
			for range rng.IntN(3) {
				in[i].Shape = append(in[i].Shape, rng.IntN(4))
			}
			if rng.IntN(3) == 0 {
				in[i].DType = in[0].DType
			}
			if i > 0 && rng.IntN(3) == 0 {
				in[i] = graph.T(graph.I32)
			}
		}
		out, err := p.Infer(in)
		if err != nil {
			continue
		}
		ok[p.Name()]++
		if len(out) != 1 {
			t.Fatalf("%s%s of %v: %d results", p.Name(), graph.ParamString(p), in, len(out))
		}
		for _, n := range out[0].Shape {
			if n < 0 {
				t.Fatalf("%s%s of %v gives %s", p.Name(), graph.ParamString(p), in, out[0])
			}
		}
	}
	for _, p := range []string{"reshape", "slice", "pad", "iota", "dynamic_slice", "dynamic_update_slice", "gather", "scatter_add", "one_hot", "concatenate"} {
		if ok[p] == 0 {
			t.Errorf("no %s was accepted; want the cases to cover it", p)
		}
	}
}
