package gomoe_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// Sums in bf16 and f16 send half of the bytes, and differ from the sum by no more than
// Config.Sums says, in all_sum, reduce_scatter and joined sums, and inside of a loop. Numbers
// without dimensions, and sums without a type, stay as they are.
func TestSumType(t *testing.T) {
	const rows, columns = 12, 6
	p, err := gomoe.Parse("sums.graph", `program sums(x f32[5,12], w f32[12,6], z f32[3,6]) {
	y f32[5,6] = dot_general(x, w) lhs_contract=[1] rhs_contract=[0]
	parts f32[5,6] = sharding_constraint(y) spec="_,a"
	other f32[5,6] = dot_general(x, w) lhs_contract=[1] rhs_contract=[0]
	n f32[] = reduce_sum(w) axes=[0,1] unordered=true
	c f32[5,6], e f32[3,5,6] = scan(x, w, y, z) length=3 consts=2 carry=1 body=program body(x f32[5,12], w f32[12,6], c f32[5,6], z f32[6]) {
		m f32[5,6] = dot_general(x, w) lhs_contract=[1] rhs_contract=[0]
		k f32[5,6] = mul(c, c)
		return k, m
	}
	return y, parts, other, n, e, c
}`)
	require.NoError(t, err)
	in := map[string]array.Array{}
	for k, v := range p.In {
		a := array.New(v.Type)
		for i := range array.Data[float32](a) {
			array.Data[float32](a)[i] = float32(((i+k)*7919)%101)/101 - 0.5
		}
		in[v.Name] = a
	}
	for _, mesh := range []string{"a=2", "a=4", "a=3,b=2"} {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		cfg := gomoe.Config{Mesh: m, Check: true, Place: map[string]sharding.Spec{"x": sharding.Split("", "a"), "w": sharding.Split("a")}}
		want, err := gomoe.Run(context.Background(), p, cfg, in)
		require.NoError(t, err)

		size := m.Size("a") // the sums of what the ranks' summands are, by magnitude
		most := make([]float64, 5*columns)
		x, w := in["x"].Float64s(), in["w"].Float64s()
		for i := range most {
			for r := range size {
				start, n := m.Cut([]string{"a"}, rows, r)
				sum := 0.0
				for k := start; k < start+n; k++ {
					sum += x[i/columns*rows+k] * w[k*columns+i%columns]
				}
				most[i] += math.Abs(sum)
			}
		}
		for d, u := range map[graph.DType]float64{graph.BF16: 1.0 / 256, graph.F16: 1.0 / 2048} {
			cfg.Sums = d
			plan, err := gomoe.Compile(t.Context(), p, cfg)
			require.NoError(t, err)
			narrow := 0
			for _, q := range plan.Plans() {
				for i := range q.Instrs {
					if in := &q.Instrs[i]; in.Name() == "all_sum" || in.Name() == "reduce_scatter" {
						if scalar := q.Bufs[in.In[0]].Type.Rank() == 0; scalar == (in.DType == d) {
							t.Errorf("%s: %s of %s", mesh, in.Name(), in.DType)
						}
						if in.DType == d {
							narrow++
						}
					}
				}
			}
			require.GreaterOrEqual(t, narrow, 2, "%s", plan)
			got, err := gomoe.Run(context.Background(), p, cfg, in)
			require.NoError(t, err)
			differ := false
			for _, i := range []int{0, 1, 2, 4} {
				a, b := got[i].Float64s(), want[i].Float64s()
				for k := range a {
					bound := (2*u+u*u)*most[k%len(most)] + 1e-6
					if math.Abs(a[k]-b[k]) > bound {
						t.Errorf("%s %s: element %d of result %d is %g, want %g within %g", mesh, d, k, i, a[k], b[k], bound)
					}
					differ = differ || a[k] != b[k]
				}
			}
			require.True(t, differ, "nothing was rounded")
			require.True(t, array.Equal(got[3], want[3]), "a number is rounded")
		}
	}
	_, err = gomoe.Compile(t.Context(), p, gomoe.Config{Sums: graph.F8_E4M3})
	require.ErrorContains(t, err, "lowering: sums of f8_e4m3, want bf16, f16 or, for f32, none")
}
