package primitives_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

func randomRows() []row {
	// Other element types draw other bits, so only f64 is compared with f64. The
	// numbers get the placement of x.
	return []row{
		at(row{prim: "random_seed", whole: true, src: []string{
			"program p(s i64[]) {\n k = random_seed(s)\n return k\n}",
			"program p(s u32[], x f64[4,0]) {\n k = random_seed(s)\n r = random_uniform(k) dtype=f64 shape=[4,0] hi=1\n y = mul(x, r)\n return y\n}",
			"program p(s i32[], x f64[1]) {\n k = random_seed(s)\n r = random_uniform(k) dtype=f64 shape=[1] hi=1\n y = mul(x, r)\n return y\n}",
		}, tol32: -1, tol16: -1}),
		at(row{prim: "random_fold_in", whole: true, src: []string{
			"program p(k u32[2], d u32[]) {\n l = random_fold_in(k, d)\n return l\n}",
			"program p(k u32[2], d i64[], x f64[4,0]) {\n l = random_fold_in(k, d)\n r = random_uniform(l) dtype=f64 shape=[4,0] hi=1\n y = mul(x, r)\n return y\n}",
			"program p(k u32[2], d u8[], x f64[1]) {\n l = random_fold_in(k, d)\n r = random_uniform(l) dtype=f64 shape=[1] hi=1\n y = mul(x, r)\n return y\n}",
		}, tol32: -1, tol16: -1}),
		at(row{prim: "random_split", src: []string{
			"program p(k u32[2], u u32[4,2]) {\n l = random_split(k) num=4\n m = place_like(l, u)\n return m\n}",
			"program p(k u32[2], u u32[0,2]) {\n l = random_split(k)\n m = place_like(l, u)\n return m\n}",
			"program p(k u32[2], u f32[1,2]) {\n l = random_split(k) num=1\n m = place_like(l, u)\n return m\n}",
		}}),
		at(row{prim: "random_bits", src: []string{
			"program p(k u32[2], u f32[2,4,6]) {\n r = random_bits(k) dtype=u32 shape=[2,4,6]\n m = place_like(r, u)\n return m\n}",
			"program p(k u32[2], u f32[8]) {\n r = random_bits(k) dtype=u8 shape=[8]\n m = place_like(r, u)\n return m\n}",
			"program p(k u32[2], u f32[2,0]) {\n r = random_bits(k) dtype=u32 shape=[2,0]\n m = place_like(r, u)\n return m\n}",
			"program p(k u32[2], u f32[1,4]) {\n r = random_bits(k) dtype=u8 shape=[1,4]\n m = place_like(r, u)\n return m\n}",
		}}),
		at(row{prim: "random_uniform", src: []string{
			"program p(k u32[2], x f64[4,6]) {\n r = random_uniform(k) dtype=f64 shape=[4,6] lo=-1 hi=1\n y = mul(x, r)\n return y\n}",
			"program p(k u32[2], x f64[4,3,2]) {\n r = random_uniform(k) dtype=f64 shape=[4,3,2] hi=1\n y = mul(x, r)\n return y\n}",
			"program p(k u32[2], x f64[0,2]) {\n r = random_uniform(k) dtype=f64 shape=[0,2] hi=1\n y = mul(x, r)\n return y\n}",
			"program p(k u32[2], x f64[1,4]) {\n r = random_uniform(k) dtype=f64 shape=[1,4] hi=1\n y = mul(x, r)\n return y\n}",
		}, tol32: -1, tol16: -1}),
		at(row{prim: "random_normal", src: []string{
			"program p(k u32[2], x f64[4,6]) {\n r = random_normal(k) dtype=f64 shape=[4,6]\n y = mul(x, r)\n return y\n}",
			"program p(k u32[2], x f64[2,4,2]) {\n r = random_normal(k) dtype=f64 shape=[2,4,2]\n y = mul(x, r)\n return y\n}",
			"program p(k u32[2], x f64[0,2]) {\n r = random_normal(k) dtype=f64 shape=[0,2]\n y = mul(x, r)\n return y\n}",
			"program p(k u32[2], x f64[1,4]) {\n r = random_normal(k) dtype=f64 shape=[1,4]\n y = mul(x, r)\n return y\n}",
		}, tol32: -1, tol16: -1}),
		at(row{prim: "stochastic_round", in: gens{"n": ints(-1<<20, 1<<20)}, src: []string{
			"program p(k u32[2], n i32[2,4,6]) {\n x = convert_element_type(n) dtype=f32\n y = stochastic_round(x, k)\n return y\n}",
			"program p(k u32[2], n i32[4,6]) {\n x = convert_element_type(n) dtype=f32\n y = stochastic_round(x, k)\n z = neg(y)\n return y, z\n}",
			"program p(k u32[2], n i32[0,2]) {\n x = convert_element_type(n) dtype=f32\n y = stochastic_round(x, k)\n return y\n}",
			"program p(k u32[2], n i32[1,4]) {\n x = convert_element_type(n) dtype=f32\n y = stochastic_round(x, k)\n return y\n}",
		}}),
	}
}

func run1(t *testing.T, cfg gomoe.Config, src string, in map[string]array.Array) array.Array {
	t.Helper()
	p, err := gomoe.Parse("random", src)
	require.NoError(t, err)
	out, err := gomoe.Run(context.Background(), p, cfg, in)
	require.NoError(t, err)
	return out[0]
}

// Every element type draws the same numbers on every mesh, for every way to
// split them, also if a part has no two neighbouring elements.
func TestRandomMesh(t *testing.T) {
	key, err := array.Of([]uint32{1, 2}, 2)
	require.NoError(t, err)
	mesh, err := sharding.ParseMesh("a=2,b=2")
	require.NoError(t, err)
	for _, draw := range []string{
		"random_bits(k) dtype=u8", "random_bits(k) dtype=u32",
		"random_uniform(k) dtype=f16 hi=1", "random_uniform(k) dtype=bf16 hi=1", "random_uniform(k) dtype=f32 hi=1",
		"random_normal(k) dtype=f16", "random_normal(k) dtype=bf16", "random_normal(k) dtype=f32",
	} {
		src := fmt.Sprintf("program p(k u32[2], u bool[4,4,2]) {\n r = %s shape=[4,4,2]\n m = place_like(r, u)\n return m\n}", draw)
		in := map[string]array.Array{"k": key, "u": array.New(graph.T(graph.Bool, 4, 4, 2))}
		want := run1(t, gomoe.Config{}, src, in)
		for _, s := range []string{"a.b", "b.a", "_,b,a", "a,_,b", "b,a", "_,a.b", "_,_,b"} {
			spec, err := sharding.ParseSpec(s)
			require.NoError(t, err)
			got := run1(t, gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"u": spec}}, src, in)
			if !array.Equal(got, want) {
				t.Errorf("%s placed %s: %v, want %v", draw, s, got, want)
			}
		}
	}
}

// The keys come from JAX 0.10.2.
func TestRandomKeys(t *testing.T) {
	p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		step := tr.Input("step", graph.I64)
		var out []*graph.Value
		for _, seed := range []int64{0, 42, 1<<32 + 7, -1} {
			out = append(out, primitives.RandomKey(tr, seed))
		}
		k := out[1]
		out = append(out, primitives.RandomFoldIn(k, step), primitives.RandomSplit(k, 2), primitives.RandomSplit(k, 3))
		small := tr.Input("small", graph.I32)
		return append(out, primitives.RandomSeed(small), primitives.RandomBits(k, graph.U32, 3), primitives.RandomBits(k, graph.U8, 3))
	})
	require.NoError(t, err)
	got, err := gomoe.Run(context.Background(), p, gomoe.Config{}, map[string]array.Array{"step": array.Scalar[int64](1<<32 + 3), "small": array.Scalar[int32](-1)})
	require.NoError(t, err)
	for i, want := range [][]float64{
		{0, 0}, {0, 42}, {1, 7}, {math.MaxUint32, math.MaxUint32},
		{3134548294, 894150801},
		{1832780943, 270669613, 64467757, 2916123636},
		{1832780943, 270669613, 64467757, 2916123636, 2465931498, 255383827},
		{0, math.MaxUint32},
		{2098992034, 2919706841, 2646866425},
		{162, 217, 249},
	} {
		if !slices.Equal(got[i].Float64s(), want) {
			t.Errorf("result %d: %v, want %v", i, got[i], want)
		}
	}
}

// TestRandomMoments would find a generator that repeats or is biased.
func TestRandomMoments(t *testing.T) {
	key, err := array.Of([]uint32{0, 7}, 2)
	require.NoError(t, err)
	const n = 20000
	for _, tt := range []struct {
		draw           string
		mean, variance float64
	}{
		{"random_uniform(k) dtype=f32 lo=-1 hi=3", 1, 16. / 12},
		{"random_uniform(k) dtype=f16 hi=1", 0.5, 1. / 12},
		{"random_normal(k) dtype=f32", 0, 1},
		{"random_normal(k) dtype=bf16", 0, 1},
	} {
		x := run1(t, gomoe.Config{}, fmt.Sprintf("program p(k u32[2]) {\n r = %s shape=[%d]\n return r\n}", tt.draw, n), map[string]array.Array{"k": key}).Float64s()
		sum, squares := 0.0, 0.0
		for _, v := range x {
			sum += v
			squares += (v - tt.mean) * (v - tt.mean)
		}
		// Five standard errors, and 1% for the coarse formats.
		if d := math.Abs(sum/n - tt.mean); d > 5*math.Sqrt(tt.variance/n)+0.01 {
			t.Errorf("%s: mean %g, want %g", tt.draw, sum/n, tt.mean)
		}
		if d := math.Abs(squares/n - tt.variance); d > 0.06*tt.variance {
			t.Errorf("%s: variance %g, want %g", tt.draw, squares/n, tt.variance)
		}
	}
}

func TestRandomErrors(t *testing.T) {
	for _, tt := range []struct{ eqn, want string }{
		{"random_bits(k) shape=[2]", "random:2: random_bits(u32[2]): dtype is missing; write dtype=u32"},
		{"random_bits(k) shape=[2] dtype=i64", "random:2: random_bits(u32[2]): dtype i64, want u32 or u8"},
		{"random_bits(s) shape=[2] dtype=u32", "random:2: random_bits(u32[]): key u32[], want u32[2]; make one with random_seed, or take one row of random_split"},
		{"random_bits() shape=[2] dtype=u32", "random:2: random_bits(): 0 arguments, want 1"},
		{"random_bits(k) shape=[-2] dtype=u32", "random:2: random_bits(u32[2]): shape [-2], want sizes of at least 0 whose bytes fit in 63 bits"},
		{"random_normal(k) shape=[2] dtype=i32", "random:2: random_normal(u32[2]): dtype i32, want f32, f64, bf16 or f16"},
		{"random_uniform(k) shape=[2]", "random:2: random_uniform(u32[2]): dtype is missing; write dtype=f32"},
		{"random_uniform(k) dtype=f32", "random:2: random_uniform(u32[2]): lo 0 and hi 0, want lo below hi, and hi-lo finite, in f32"},
		{"random_uniform(k) dtype=bf16 lo=1 hi=1.001", "random:2: random_uniform(u32[2]): lo 1 and hi 1.001, want lo below hi, and hi-lo finite, in bf16"},
		{"random_uniform(k) dtype=f16 lo=-40000 hi=40000", "random:2: random_uniform(u32[2]): lo -40000 and hi 40000, want lo below hi, and hi-lo finite, in f16"},
		{"random_uniform(k) dtype=f32 hi=nan", "random:2: random_uniform(u32[2]): lo 0 and hi NaN, want lo below hi, and hi-lo finite, in f32"},
		{"random_split(k) num=-1", "random:2: random_split(u32[2]): num -1, want at least 0"},
		{"random_seed(f)", "random:2: random_seed(f32[]): seed f32[], want an integer scalar such as i64[]"},
		{"random_fold_in(k, k)", "random:2: random_fold_in(u32[2], u32[2]): data u32[2], want an integer scalar such as i64[]"},
		{"random_fold_in(s, s)", "random:2: random_fold_in(u32[], u32[]): key u32[], want u32[2]; make one with random_seed, or take one row of random_split"},
	} {
		_, err := gomoe.Parse("random", "program p(k u32[2], s u32[], f f32[]) {\n r = "+tt.eqn+"\n return r\n}")
		require.EqualError(t, err, tt.want)
	}
	_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		return []*graph.Value{primitives.RandomKey(tr, 1<<60)}
	})
	require.ErrorContains(t, err, "key: seed 1152921504606846976 has more than 53 bits; take the key u32[2] as an input")
}

func TestDropout(t *testing.T) {
	const rate, n = 0.25, 4096
	p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		x, key := tr.Input("x", graph.F32, 4, n/4), tr.Input("key", graph.U32, 2)
		return []*graph.Value{primitives.Dropout(x, key, rate), primitives.Dropout(x, key, 0)}
	})
	require.NoError(t, err)
	x := array.New(graph.T(graph.F32, 4, n/4))
	for i := range n {
		array.Data[float32](x)[i] = float32(i + 1)
	}
	key, err := array.Of([]uint32{3, 4}, 2)
	require.NoError(t, err)
	in := map[string]array.Array{"x": x, "key": key}
	want, err := gomoe.Run(context.Background(), p, gomoe.Config{}, in)
	require.NoError(t, err)
	dropped := 0
	for i, y := range array.Data[float32](want[0]) {
		switch y {
		case 0:
			dropped++
		case float32(i+1) / (1 - rate):
		default:
			t.Fatalf("element %d of value %d became %g", i, i+1, y)
		}
	}
	if math.Abs(float64(dropped)/n-rate) > 0.03 { // 4 standard errors
		t.Errorf("%d of %d dropped at rate %g", dropped, n, rate)
	}
	if !array.Equal(want[1], x) {
		t.Error("rate 0 changes x")
	}
	mesh, err := sharding.ParseMesh("a=2,b=2")
	require.NoError(t, err)
	got, err := gomoe.Run(context.Background(), p, gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"x": sharding.Split("b", "a")}}, in)
	require.NoError(t, err)
	if !array.Equal(got[0], want[0]) {
		t.Error("a mesh drops other elements than one rank")
	}
	for _, bad := range []float64{-0.1, 1, math.NaN()} {
		_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
			return []*graph.Value{primitives.Dropout(tr.Input("x", graph.F32, 2), tr.Input("key", graph.U32, 2), bad)}
		})
		require.ErrorContains(t, err, fmt.Sprintf("dropout: rate %g, want 0 to below 1", bad))
	}
}
