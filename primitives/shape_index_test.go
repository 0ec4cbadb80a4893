package primitives_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	gort "runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// TestPadValues compares every sign of the padding along one dimension with
// jax.lax.pad.
func TestPadValues(t *testing.T) {
	for _, c := range []struct {
		low, high, interior, n int
		want                   []float64
	}{
		{-3, 2, 2, 4, []float64{2, -1, -1, 3, -1, -1, 4, -1, -1}},
		{2, -5, 1, 3, []float64{-1, -1}},
		{-1, -1, 3, 2, []float64{-1, -1, -1}},
		{-2, 3, 4, 1, []float64{-1, -1}},
		{0, 0, 2, 0, nil},
		{3, -2, 1, 0, []float64{-1}},
	} {
		p, err := gomoe.Parse("pad", "program p(x f64["+strconv.Itoa(c.n)+"], v f64[]) {\n y = pad(x, v) low=["+strconv.Itoa(c.low)+"] high=["+strconv.Itoa(c.high)+"] interior=["+strconv.Itoa(c.interior)+"]\n return y\n}")
		require.NoError(t, err)
		x := make([]float64, c.n)
		for i := range x {
			x[i] = float64(i + 1)
		}
		got, err := gomoe.Run(context.Background(), p, gomoe.Config{}, map[string]array.Array{"x": of(graph.T(graph.F64, c.n), x), "v": array.Scalar(-1.0)})
		require.NoError(t, err)
		if y := array.Data[float64](got[0]); !slices.Equal(y, c.want) {
			t.Errorf("pad %+v: got %v", c, y)
		}
	}
}

func TestIndexOutOfRange(t *testing.T) {
	for _, c := range []struct {
		src   string
		index []float64
		want  string
	}{
		{"y = gather(x, i)", []float64{0, 4}, "index 4, element 1 of this rank's indices, is out of range, want 0 to 3 for an axis of size 4"},
		{"y = gather(x, i) axis=1", []float64{-1, 0}, "index -1, element 0 of this rank's indices, is out of range, want 0 to 1 for an axis of size 2"},
		{"y = scatter_add(x, i, u)", []float64{3, 7}, "index 7, element 1 of this rank's indices, is out of range, want 0 to 3 for an axis of size 4"},
		{"y = scatter_add(x, i, u)", []float64{-4, 0}, "index -4, element 0 of this rank's indices"},
	} {
		p, err := gomoe.Parse("index", "program p(x f32[4,2], i i32[2], u f32[2,2]) {\n "+c.src+"\n return y\n}")
		require.NoError(t, err)
		_, err = gomoe.Run(context.Background(), p, gomoe.Config{}, map[string]array.Array{
			"x": array.New(graph.T(graph.F32, 4, 2)), "u": array.New(graph.T(graph.F32, 2, 2)), "i": of(graph.T(graph.I32, 2), c.index)})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "index:2") {
			t.Errorf("%s with %v: %v, want %s at index:2", c.src, c.index, err, c.want)
		}
	}
}

// TestIndexOutOfRangeOnOneRank stops all ranks. The error names the rank that failed.
func TestIndexOutOfRangeOnOneRank(t *testing.T) {
	p, err := gomoe.Parse("index", "program p(x f32[4], i i32[4]) {\n y = gather(x, i)\n s = reduce_sum(y) axes=[0]\n return s\n}")
	require.NoError(t, err)
	m, err := sharding.ParseMesh("a=2")
	require.NoError(t, err)
	_, err = gomoe.Run(context.Background(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"i": sharding.Split("a")}},
		map[string]array.Array{"x": array.New(graph.T(graph.F32, 4)), "i": of(graph.T(graph.I32, 4), []float64{0, 1, 2, 9})})
	if err == nil || !strings.Contains(err.Error(), "index 9, element 1 of this rank's indices") || !strings.Contains(err.Error(), "rank 1") {
		t.Errorf("%v, want rank 1's index 9", err)
	}
}

// TestScatterAddTypes adds duplicates in every type; integers wrap, and bf16
// and f16 round once.
func TestScatterAddTypes(t *testing.T) {
	p, err := gomoe.Parse("scatter", "program p(x f32[3,2], i i32[4], u f32[4,2]) {\n y = scatter_add(x, i, u)\n return y\n}")
	require.NoError(t, err)
	for _, d := range allTypes[1:] {
		q, err := gomoe.Parse("scatter", strings.ReplaceAll(p.String(), "f32", d.String()))
		require.NoError(t, err)
		x, u := []float64{1, 2, 3, 4, 5, 6}, []float64{10, 20, 30, 40, 50, 60, 70, 80}
		want := []float64{1, 2, 3 + 10 + 50 + 70, 4 + 20 + 60 + 80, 5 + 30, 6 + 40}
		got, err := gomoe.Run(context.Background(), q, gomoe.Config{}, map[string]array.Array{
			"x": of(graph.T(d, 3, 2), x), "i": of(graph.T(graph.I32, 4), []float64{1, 2, 1, 1}), "u": of(graph.T(d, 4, 2), u)})
		require.NoError(t, err)
		if w := of(graph.T(d, 3, 2), want); !array.Equal(got[0], w) {
			t.Errorf("%s: got %v, want %v", d, got[0], w)
		}
	}
	for _, c := range []struct {
		d    graph.DType
		x, u float64
		n    int
		want float64
	}{
		{graph.U8, 250, 3, 4, 6},                        // 262 modulo 256
		{graph.I32, math.MaxInt32, 1, 1, math.MinInt32}, // wraps
		{graph.BF16, 256, 1, 3, 260},                    // 259 rounds to even; adding 1 to 256 in bf16 stays 256
		{graph.F16, 2048, 1, 3, 2052},                   // 2051 likewise
		{graph.F32, 1 << 24, 1, 3, 1<<24 + 4},           // 2^24 + 3
		{graph.F64, 1 << 53, 1, 3, 1 << 53},             // each 1 is lost, in order
		{graph.F32, math.Copysign(0, -1), 0, 1, 0},      // -0 + 0 is 0
	} {
		src := strings.ReplaceAll("program p(x f32[1], i i32["+strconv.Itoa(c.n)+"], u f32["+strconv.Itoa(c.n)+"]) {\n y = scatter_add(x, i, u)\n return y\n}", "f32", c.d.String())
		q, err := gomoe.Parse("scatter", src)
		require.NoError(t, err)
		u := array.New(graph.T(c.d, c.n))
		u.Fill(c.u)
		got, err := gomoe.Run(context.Background(), q, gomoe.Config{}, map[string]array.Array{
			"x": of(graph.T(c.d, 1), []float64{c.x}), "i": array.New(graph.T(graph.I32, c.n)), "u": u})
		require.NoError(t, err)
		if w := of(graph.T(c.d, 1), []float64{c.want}); !array.Equal(got[0], w) {
			t.Errorf("%s: %g and %d times %g: got %v, want %v", c.d, c.x, c.n, c.u, got[0], w)
		}
	}
}

// Rows of many elements, as the matrices of experts' copies are, are added as loops add them, and
// without copies of the arrays in another type.
func TestScatterAddWideRows(t *testing.T) {
	const n, count, wide = 4, 7, 1<<18 + 3
	index := []int32{2, 0, 2, 3, 2, 0, 2}
	for _, d := range []graph.DType{graph.F32, graph.BF16, graph.F16, graph.F64, graph.I32} {
		q, err := gomoe.Parse("scatter", strings.ReplaceAll(fmt.Sprintf("program p(x f32[%d,%d], i i32[%d], u f32[%d,%d]) {\n y = scatter_add(x, i, u)\n return y\n}", n, wide, count, count, wide), "f32", d.String()))
		require.NoError(t, err)
		gen := uniform(-1, 1)
		if d == graph.I32 {
			gen = ints(-9, 9)
		}
		x, u := gen(rng(1), graph.T(d, n, wide)), gen(rng(2), graph.T(d, count, wide))
		want, from := x.Float64s(), u.Float64s()
		for k, i := range index {
			for j := range wide {
				want[int(i)*wide+j] += from[k*wide+j]
			}
		}
		if d == graph.BF16 || d == graph.F16 {
			for j, v := range want {
				want[j] = float64(float32(v))
			}
		}
		job, err := gomoe.Open(t.Context(), q, gomoe.Config{Options: runtime.Options{Threads: 2}})
		require.NoError(t, err)
		in := map[string]*runtime.Array{}
		for name, a := range map[string]array.Array{"x": x, "i": ids(index, count), "u": u} {
			in[name], err = job.Put(name, a)
			require.NoError(t, err)
		}
		var before, after gort.MemStats
		gort.ReadMemStats(&before)
		out, err := job.Run(t.Context(), in)
		require.NoError(t, err)
		gort.ReadMemStats(&after)
		got, err := out[0].Get()
		require.NoError(t, err)
		sameBits(t, d.String(), got, of(x.Type, want))
		if took := int64(after.TotalAlloc - before.TotalAlloc); took > x.Type.Bytes()+1<<20 {
			t.Errorf("%s: a step takes %d bytes, want those of the result, %d, and little more", d, took, x.Type.Bytes())
		}
		require.NoError(t, job.Close())
	}
}

// TestScatterAddThreads checks that the bits are the same for any number of threads, and
// that rows that no index names do not change.
func TestScatterAddThreads(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	p, err := gomoe.Parse("scatter", "program p(x f32[200,33], i i32[3000], u f32[3000,33]) {\n y = scatter_add(x, i, u)\n return y\n}")
	require.NoError(t, err)
	in := map[string]array.Array{
		"x": uniform(-1, 1)(rng, graph.T(graph.F32, 200, 33)), "u": uniform(-1, 1)(rng, graph.T(graph.F32, 3000, 33)),
		"i": ints(1, 200)(rng, graph.T(graph.I32, 3000))}
	put(in["x"], 0, 0x7fc12345) // in row 0, which no index names
	var first array.Array
	for _, threads := range []int{1, 3, 8} {
		cfg := gomoe.Config{}
		cfg.Threads = threads
		got, err := gomoe.Run(context.Background(), p, cfg, in)
		require.NoError(t, err)
		if threads == 1 {
			first = got[0]
		}
		if !array.Equal(got[0], first) {
			t.Errorf("%d threads give other bits", threads)
		}
	}
	if !array.Equal(first.Rows(0, 1), in["x"].Rows(0, 1)) {
		t.Errorf("row 0 changed: %v", first.Rows(0, 1))
	}
	want := make([]float64, 200*33)
	copy(want, in["x"].Float64s())
	u := in["u"].Float64s()
	for k, i := range array.Data[int32](in["i"]) {
		for j := range 33 {
			want[int(i)*33+j] += u[k*33+j]
		}
	}
	if w := of(graph.T(graph.F32, 200, 33), want); !array.Equal(first.Rows(1, 200), w.Rows(1, 200)) {
		t.Error("rows differ from the sum in f64, in order, rounded once")
	}
}

// TestShapeDonated writes a result over each argument of its type.
func TestShapeDonated(t *testing.T) {
	for _, c := range []struct{ op, donate string }{
		{"scatter_add(x, i, u)", "x"}, {"scatter_add(x, i, u)", "i"}, {"scatter_add(x, i, u)", "u"},
		{"dynamic_update_slice(x, u, s)", "x"}, {"dynamic_update_slice(x, u, s)", "u"},
	} {
		p, err := gomoe.Parse("donated", "program p(x i32[4], i i32[4], u i32[4], s i32[]) {\n y = "+c.op+"\n return y\n}")
		require.NoError(t, err)
		in := map[string]array.Array{"x": of(graph.T(graph.I32, 4), []float64{9, 8, 7, 6}), "i": of(graph.T(graph.I32, 4), []float64{3, 0, 2, 0}),
			"u": of(graph.T(graph.I32, 4), []float64{10, 20, 30, 40}), "s": array.New(graph.T(graph.I32))}
		want := []int32{9 + 20 + 40, 8, 7 + 30, 6 + 10}
		if c.op[0] == 'd' {
			want = []int32{10, 20, 30, 40}
		}
		got, err := gomoe.Run(context.Background(), p, gomoe.Config{Donate: map[string]int{c.donate: 0}}, in)
		require.NoError(t, err)
		if !slices.Equal(array.Data[int32](got[0]), want) {
			t.Errorf("%s over %s: got %v, want %v", c.op, c.donate, got[0], want)
		}
	}
}
