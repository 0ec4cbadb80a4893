package gomoe_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// TestExpertsUnevenColumns sends rows to their experts and home whose 8 columns are split over
// 3 ranks, beside the axis of the experts: with weights and without, with all exchanges, for
// tokens that are whole over the experts' axis and tokens that travel.
func TestExpertsUnevenColumns(t *testing.T) {
	const src = `program p(x FLOAT[4,8], w FLOAT[4,2], i i32[4,2]) {
	r i32[4,2,2], kept bool[4,2], a i32[6], b i32[6], c i32[6] = ep_prepare(i) OPTIONS
	DISPATCH
	z = mul(d, d)
	COMBINE
}`
	const options = `experts=6 capacity=4 axis="a"`
	m, err := sharding.ParseMesh("a=2,b=3")
	require.NoError(t, err)
	for _, c := range []struct {
		options string
		d       graph.DType
	}{
		{"", graph.F32}, {"", graph.BF16},
		{` exchange="sum"`, graph.F32}, {` exchange="sum"`, graph.BF16}, {` exchange="sum" wire=f16`, graph.F32}, {` exchange="sum" wire=f32`, graph.BF16},
	} {
		for _, weights := range []bool{false, true} {
			d, home := "d = ep_dispatch(x, r) OPTIONS", "y = ep_combine(z, r) OPTIONS\n\treturn y"
			if weights {
				d, home = "d, v = ep_dispatch(x, w, r) OPTIONS", "y, u = ep_combine(z, v, r) OPTIONS\n\treturn y, u"
			}
			text := strings.NewReplacer("DISPATCH", d, "COMBINE", home).Replace(src)
			p, err := gomoe.Parse("p.graph", strings.NewReplacer("OPTIONS", options+c.options, "FLOAT", c.d.String()).Replace(text))
			require.NoError(t, err)
			in := map[string]array.Array{}
			for _, v := range p.In {
				xs := make([]float64, v.Type.Len())
				for k := range xs {
					if xs[k] = float64(k*5%11 - 4); v.Name == "i" {
						xs[k] = float64(k * 5 % 6)
					}
				}
				in[v.Name] = array.New(v.Type)
				require.NoError(t, in[v.Name].SetFloat64s(xs))
			}
			want, err := gomoe.Run(context.Background(), p, gomoe.Config{}, in)
			require.NoError(t, err)
			for _, tokens := range []string{"", "a"} {
				t.Run(fmt.Sprintf("%s%s weights %v tokens %q", c.d, c.options, weights, tokens), func(t *testing.T) {
					cfg := gomoe.Config{Mesh: m, Check: true, Place: map[string]sharding.Spec{
						"x": sharding.Split(tokens, "b"), "w": sharding.Split(tokens), "i": sharding.Split(tokens)}}
					got, err := gomoe.Run(context.Background(), p, cfg, in)
					require.NoError(t, err)
					for k := range want { // small integers, whose sums are exact in any order
						if !array.Equal(got[k], want[k]) {
							t.Errorf("result %d is %v, want %v", k, got[k], want[k])
						}
					}
				})
			}
		}
	}
}
