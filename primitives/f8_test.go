package primitives_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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

// Only primitives that implement graph.Moves take 8-bit floats.
func TestF8RefusedByOthers(t *testing.T) {
	moves := refusedButBy[graph.Moves](t, graph.F8_E4M3, "argument 0 is f8_e4m3[4,32], which is for storage and transport, not for calculation; convert it with convert_element_type dtype=f32")
	if moves < 10 {
		t.Errorf("%d primitives take 8-bit floats, want those that move elements", moves)
	}
	for src, want := range map[string]string{
		"() {\n y = iota() dtype=f8_e5m2 shape=[3]\n return y\n}":                                                "want",
		"(x f8_e4m3[2], y f8_e5m2[2]) {\n z = concatenate(x, y)\n return z\n}":                                   "element types f8_e4m3 and f8_e5m2 differ",
		"(x f8_e4m3[2,32]) {\n y = convert_element_type(x) dtype=q8_0\n return y\n}":                             "convert to f32 between",
		"(x f32[2], y f8_e4m3[2]) {\n z = add(x, y)\n return z\n}":                                               "argument 1 is f8_e4m3[2], which is for storage",
		"(x f32[2,2], y f8_e4m3[2,2]) {\n z = dot_general(x, y) lhs_contract=[1] rhs_contract=[1]\n return z\n}": "argument 1 is f8_e4m3[2,2], which is for storage",
	} {
		if _, err := gomoe.Parse("refused", "program p"+src); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v, want %s", src, err, want)
		}
	}
	p, err := gomoe.Parse("g", "program p(x f8_e4m3[2]) {\n y = convert_element_type(x) dtype=f32\n z = reduce_sum(y) axes=[0]\n return z\n}")
	require.NoError(t, err)
	if _, err := vjp.Grad(p, "x"); err == nil || !strings.Contains(err.Error(), "input x is f8_e4m3[2]; only float types have a gradient") {
		t.Errorf("gradient with respect to 8-bit floats: %v", err)
	}
}

// What moves elements does so on every placement: the programs of the tables with 8-bit
// floats give the bytes that they give with u8.
func TestF8Moves(t *testing.T) {
	tested := map[string]bool{}
	for _, r := range rows() {
		for i, src := range r.src {
			p, err := gomoe.Parse(r.prim, src)
			require.NoError(t, err, r.line)
			if slices.ContainsFunc(p.Eqns, func(e *graph.Eqn) bool {
				_, ok := e.Prim.(graph.Moves)
				_, converts := e.Prim.(primitives.ConvertElementTypeOp)
				_, full := e.Prim.(graph.FullOp)
				return !ok || converts || full
			}) || !strings.Contains(src, "f64") || strings.Contains(src, "f8_") {
				continue
			}
			tested[r.prim] = true
			bytes, err := gomoe.Parse(r.prim, strings.ReplaceAll(src, "f64", "u8"))
			require.NoError(t, err, r.line)
			in := r.inputs(bytes, uint64(i))
			rnd := rand.New(rand.NewPCG(uint64(i), 3))
			for _, v := range bytes.In {
				if b := in[v.Name].Bytes(); v.Type.DType == graph.U8 {
					for i := range b {
						b[i] = byte(rnd.IntN(256))
					}
				}
			}
			want, err := gomoe.Run(context.Background(), bytes, gomoe.Config{}, in)
			require.NoError(t, err, r.line)
			f8, err := gomoe.Parse(r.prim, strings.ReplaceAll(src, "f64", "f8_e4m3"))
			require.NoError(t, err, r.line)
			codes := map[string]array.Array{}
			for _, v := range f8.In {
				codes[v.Name] = array.Over(v.Type, in[v.Name].Bytes())
			}
			for _, mesh := range []string{"", "a=2", "a=2,b=2"} {
				m, err := sharding.ParseMesh(mesh)
				require.NoError(t, err)
				ways := []map[string]sharding.Spec{{}}
				if mesh != "" {
					ways = placements(f8, m)
				}
				for _, place := range ways[:min(len(ways), 20)] {
					j, err := gomoe.Open(t.Context(), f8, gomoe.Config{Mesh: m, Place: place})
					if err != nil {
						continue // the rule does not accept the placement, which the table's test checks
					}
					got, err := j.Step(context.Background(), codes)
					require.NoError(t, err, r.line)
					j.Close()
					for k := range want {
						if !slices.Equal(got[k].Bytes(), want[k].Bytes()) {
							t.Fatalf("%s: mesh %q, placement %v: result %d is %v, want the bytes %v\n%s", r.line, mesh, place, k, got[k], want[k], f8)
						}
					}
				}
			}
		}
	}
	for _, p := range primitives.All() {
		_, moves := p.(graph.Moves)
		switch p.(type) {
		case primitives.ConvertElementTypeOp, primitives.DispatchOp, primitives.StopGradientOp, primitives.ScaledMatMulOp, primitives.GroupedScaledMatMulOp:
			continue // tests of their own
		}
		if moves && !tested[p.Name()] {
			t.Errorf("%s moves 8-bit floats, and no program of the tables consists of it", p.Name())
		}
	}
}

// A cotangent passes 8-bit floats unrounded, in f32, whatever moves the codes.
func TestF8CotangentsPass(t *testing.T) {
	p, err := gomoe.Parse("p", `program p(x bf16[3,4], i i32[5], c f32[5,4], s i32[]) {
 a = convert_element_type(x) dtype=f8_e4m3
 b = gather(a, i)
 t = transpose(b) permutation=[1,0]
 r = rev(t) dimensions=[0]
 d = dynamic_slice(r, s, s) slice_sizes=[4,5]
 e = transpose(d) permutation=[1,0]
 f = convert_element_type(e) dtype=f8_e5m2
 y = convert_element_type(f) dtype=f32
 q = convert_element_type(a) dtype=f32
 z = mul(y, c)
 w = reduce_sum(z) axes=[0,1]
 v = reduce_sum(q) axes=[0,1]
 l = add(w, v)
 return l
}`)
	require.NoError(t, err)
	g, err := vjp.Grad(p, "x")
	require.NoError(t, err)
	in := map[string]array.Array{"x": array.New(graph.T(graph.BF16, 3, 4)), "i": ids([]int32{2, 0, 2, 1, 0}, 5), "c": array.New(graph.T(graph.F32, 5, 4)), "s": array.Scalar(int32(0))}
	c := array.Data[float32](in["c"])
	for i := range c {
		c[i] = float32(i*i)/1024 - 0.1
	}
	out, err := gomoe.Run(context.Background(), g, gomoe.Config{}, in)
	require.NoError(t, err)
	want := array.New(graph.T(graph.F32, 3, 4))
	for row, k := range array.Data[int32](in["i"]) {
		for j := range 4 { // rev reverses the columns
			array.Data[float32](want)[int(k)*4+j] += c[row*4+3-j]
		}
	}
	for i := range array.Data[float32](want) {
		array.Data[float32](want)[i]++
	}
	sameBits(t, "gradient of x", out[1], want.As(graph.BF16))
}

// Conversions are the array's, on every placement, and pending sums are added before.
func TestF8ConvertsPlaced(t *testing.T) {
	p, err := gomoe.Parse("p", `program p(x f32[4,6], n i32[4,6]) {
 a = convert_element_type(x) dtype=f8_e4m3
 s = reduce_sum(x) axes=[1]
 b = convert_element_type(s) dtype=f8_e5m2
 c = convert_element_type(n) dtype=f8_e4m3
 d = convert_element_type(a) dtype=bf16
 return a, b, c, d
}`)
	require.NoError(t, err)
	x, n := array.New(graph.T(graph.F32, 4, 6)), array.New(graph.T(graph.I32, 4, 6))
	s := array.New(graph.T(graph.F32, 4))
	for i := range 24 {
		array.Data[float32](x)[i] = float32(i*i*i)/16 - 5
		array.Data[float32](s)[i/6] += float32(i*i*i)/16 - 5 // exact, whatever the order
		array.Data[int32](n)[i] = int32(i * 29)
	}
	want := []array.Array{x.As(graph.F8_E4M3), s.As(graph.F8_E5M2), n.As(graph.F8_E4M3), x.As(graph.F8_E4M3).As(graph.BF16)}
	m, err := sharding.ParseMesh("a=2")
	require.NoError(t, err)
	for _, place := range []string{"", "a", "_,a"} {
		spec, err := sharding.ParseSpec(place)
		require.NoError(t, err)
		out, err := gomoe.Run(context.Background(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": spec}}, map[string]array.Array{"x": x, "n": n})
		require.NoError(t, err)
		for i := range want {
			sameBits(t, fmt.Sprintf("x at %q: result %d", place, i), out[i], want[i])
		}
	}
}
