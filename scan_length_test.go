package gomoe_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// unlooped is a loop of 0 iterations inside a loop, and one of its own, with constants, whole numbers that are carried, and
// tables.
const unlooped = `program f(c f64[3], x f64[4,3], n i32[], w f64[0,3], v f64[2,3]) {
	a f64[4,3], m i32[], y f64[0,4,3], k i32[0] = scan(c, x, n, w) length=0 consts=1 carry=2 in_tables=[0] out_tables=[2] body=program body(c f64[3], a f64[4,3], n i32[], t f64[4], w f64[3]) {
		b f64[4,3] = broadcast_in_dim(w) shape=[4,3] dims=[1]
		s f64[4,3] = mul(a, b)
		return s, n, s, n, s
	}
	d f64[4,3] = scan(w, a, v) length=2 consts=1 carry=1 body=program outer(w f64[0,3], a f64[4,3], v f64[3]) {
		b f64[4,3] = broadcast_in_dim(v) shape=[4,3] dims=[1]
		s f64[4,3] = add(a, b)
		r f64[4,3] = scan(s, w) length=0 carry=1 keep=true body=program inner(s f64[4,3], w f64[3]) {
			b f64[4,3] = broadcast_in_dim(w) shape=[4,3] dims=[1]
			s2 f64[4,3] = sin(b)
			return s2
		}
		return r
	}
	z f64[4,3] = mul(d, d)
	l f64[] = reduce_sum(z) axes=[0,1]
	return l, a, m, y, k
}
`

// A loop of 0 iterations returns what it is given to carry, and 0 slices, as jax.lax.scan does. The carried values
// pass their cotangents on, all others have zeros; nothing of the body's placement is asked for.
func TestScanOfLengthZero(t *testing.T) {
	p, err := gomoe.Parse("p.graph", unlooped)
	require.NoError(t, err)
	require.Contains(t, p.String(), "length=0")
	again, err := gomoe.Parse("p.graph", p.String())
	require.NoError(t, err)
	require.Equal(t, p.String(), again.String())
	q, err := vjp.Grad(p)
	require.NoError(t, err)
	in := map[string]array.Array{}
	for _, v := range p.In {
		in[v.Name] = array.New(v.Type)
	}
	for i := range 12 {
		array.Data[float64](in["x"])[i] = float64(i)
	}
	copy(array.Data[float64](in["v"]), []float64{1, 2, 3, 10, 20, 30})
	array.Data[int32](in["n"])[0] = 7
	var twice []float64 // of d
	loss := 0.0
	for i, x := range array.Data[float64](in["x"]) {
		d := x + []float64{11, 22, 33}[i%3]
		twice, loss = append(twice, 2*d), loss+d*d
	}
	byColumn := make([]float64, 3)
	for i, d := range twice {
		byColumn[i%3] += d
	}
	want := map[string][]float64{
		"l": {loss}, "a": in["x"].Float64s(), "m": {7}, "y": {}, "k": {},
		"grad(c)": {0, 0, 0}, "grad(x)": twice, "grad(w)": {}, "grad(v)": append(byColumn[:3:3], byColumn...),
	}
	for _, c := range []struct {
		mesh  string
		place map[string]sharding.Spec
	}{
		{"", nil},
		{"ep=2", map[string]sharding.Spec{"x": sharding.Split("ep")}},
		{"ep=3", map[string]sharding.Spec{"x": sharding.Split("", "ep"), "w": sharding.Split("ep")}},
		{"ep=2", map[string]sharding.Spec{"w": sharding.Split("", "ep"), "v": sharding.Split("", "ep")}},
	} {
		m, err := sharding.ParseMesh(c.mesh)
		require.NoError(t, err)
		for _, optimize := range []gomoe.Switch{gomoe.On, gomoe.Off} {
			cfg := gomoe.Config{Mesh: m, Place: c.place, Optimize: optimize, Check: true}
			cfg.Poison = true
			for _, p := range []*graph.Program{p, q} {
				got, err := gomoe.RunNamed(t.Context(), p, cfg, in)
				require.NoError(t, err, c)
				for name, a := range got {
					require.Contains(t, want, name)
					require.Equal(t, append([]float64{}, want[name]...), append([]float64{}, a.Float64s()...), "%s: %v", name, c)
				}
				require.Len(t, got, len(p.Out))
			}
		}
	}
}

// A list of layers may be empty: the number of slices of the weights is the number of iterations.
func TestScanOfNoLayers(t *testing.T) {
	p, err := graph.Trace("f", func(tr *graph.Tracer) []*graph.Value {
		x, w := tr.Input("x", graph.F32, 2, 4), tr.Input("w", graph.F32, 0, 4, 4)
		out, norms := graph.Scan(graph.ScanParams{}, []*graph.Value{x}, []*graph.Value{w}, func(c, w []*graph.Value) ([]*graph.Value, []*graph.Value) {
			h := primitives.MatMul(c[0], w[0])
			return []*graph.Value{h}, []*graph.Value{primitives.ReduceSum(h)}
		})
		loss := primitives.Add(primitives.ReduceSum(primitives.Square(out[0])), primitives.ReduceSum(norms[0]))
		return append([]*graph.Value{loss, norms[0]}, vjp.Gradients(loss, x, w)...)
	})
	require.NoError(t, err)
	x := array.New(graph.T(graph.F32, 2, 4))
	for i := range array.Data[float32](x) {
		array.Data[float32](x)[i] = 1
	}
	got, err := gomoe.Run(t.Context(), p, gomoe.Config{}, map[string]array.Array{"x": x, "w": array.New(graph.T(graph.F32, 0, 4, 4))})
	require.NoError(t, err)
	require.Equal(t, []float64{8}, got[0].Float64s())
	require.Equal(t, []int{0}, got[1].Type.Shape)
	require.Equal(t, []float64{2, 2, 2, 2, 2, 2, 2, 2}, got[2].Float64s())
	require.Equal(t, []int{0, 4, 4}, got[3].Type.Shape)
}

// The results of a loop of no iteration may have any element type, also that of weights in blocks.
func TestScanOfLengthZeroOfAnyType(t *testing.T) {
	for _, d := range []string{"bool", "u8", "u32", "i32", "i64", "f8_e4m3", "f8_e5m2", "f16", "bf16", "f32", "f64", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq2_xxs", "iq3_xxs", "iq4_nl", "iq4_xs", "mxfp4"} {
		p, err := gomoe.Parse("p.graph", strings.ReplaceAll(`program f(w T[4,256], v T[0,4,256]) {
	a T[4,256], y T[0,4,256], k T[0,4,256] = scan(w, v) length=0 carry=1 body=program body(w T[4,256], s T[4,256]) {
		return w, s, w
	}
	return a, y, k
}`, "T", d))
		require.NoError(t, err, d)
		in := map[string]array.Array{"w": array.New(p.In[0].Type), "v": array.New(p.In[1].Type)}
		for i := range in["w"].Bytes() {
			in["w"].Bytes()[i] = byte(i % 2)
		}
		for _, mesh := range []string{"", "ep=2"} {
			m, err := sharding.ParseMesh(mesh)
			require.NoError(t, err)
			got, err := gomoe.Run(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"w": sharding.Split("ep")}, Check: true}, in)
			require.NoError(t, err, d)
			require.Equal(t, in["w"].Bytes(), got[0].Bytes(), d)
			for _, none := range got[1:] {
				require.Equal(t, p.In[1].Type, none.Type)
			}
		}
	}
}
