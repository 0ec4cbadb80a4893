package primitives_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/sharding"
)

// TestTree compares sums in a tree on every mesh of 1 to 8 ranks with their definition: the
// program without a tree for each block of the batch, and these results added in pairs.
func TestTree(t *testing.T) {
	const blocks = 8
	for _, c := range []struct {
		src   string // with N for the size of the batch
		split string // the inputs that have the batch
	}{
		{"program p(x f32[N,5,4]) {\n y = reduce_sum(x) axes=[0] unordered=true\n return y\n}", "x"},
		{"program p(x f32[N,3,2], y f32[N,4]) {\n z = dot_general(x, y) lhs_contract=[0] rhs_contract=[0]\n return z\n}", "x y"},
		{"program p(x f32[N,90], y f32[N,130]) {\n z = dot_general(x, y) lhs_contract=[0] rhs_contract=[0]\n return z\n}", "x y"},
		{"program p(x f32[N,2,6], ct f32[N,2,6]) {\n y = rms_norm_gain_grad(x, ct) eps=0.1\n return y\n}", "x ct"},
		{"program p(x f32[N,6], ct f32[N,6]) {\n y, z = layer_norm_gain_grad(x, ct) eps=0.1\n return y, z\n}", "x ct"},
		{"program p(ids i32[N], ct f32[N,6]) {\n y = embedding_grad(ids, ct) num=5\n return y\n}", "ids ct"},
		{`program p(ids i32[N,2], x f32[N,40], y f32[N,70]) {
	r, drop, n, pad, demand = ep_prepare(ids) experts=8
	xs = ep_dispatch(x, r) experts=8
	ys = ep_dispatch(y, r) experts=8
	w = grouped_outer(xs, ys, r) experts=8
	return w
}`, "ids x y"},
	} {
		const each = 6
		program := func(n int) string { return strings.ReplaceAll(c.src, "N", fmt.Sprint(n)) }
		p, err := gomoe.Parse("p.graph", program(blocks*each))
		require.NoError(t, err)
		in := map[string]array.Array{}
		rng := rand.New(rand.NewPCG(1, uint64(len(c.src))))
		for _, v := range p.In {
			make := uniform(-1, 1)
			if !v.Type.DType.IsFloat() {
				make = ints(0, 5)
			}
			in[v.Name] = make(rng, v.Type)
		}
		var tree func(first, n int) [][]float32
		tree = func(first, n int) [][]float32 {
			if n == 1 {
				one, err := gomoe.Parse("p.graph", program(each))
				require.NoError(t, err)
				part := map[string]array.Array{}
				for name, x := range in {
					part[name] = x.Rows(first*each, (first+1)*each)
				}
				out, err := gomoe.Run(context.Background(), one, gomoe.Config{}, part)
				require.NoError(t, err)
				var sums [][]float32
				for _, y := range out {
					sums = append(sums, append([]float32(nil), array.Data[float32](y)...))
				}
				return sums
			}
			a, b := tree(first, n/2), tree(first+n/2, n/2)
			for i := range a {
				for j := range a[i] {
					a[i][j] += b[i][j]
				}
			}
			return a
		}
		want := tree(0, blocks)
		place := map[string]sharding.Spec{}
		for _, name := range strings.Fields(c.split) {
			place[name] = sharding.Split("dp.ep")
		}
		for _, mesh := range []string{"", "dp=2", "dp=3", "ep=3", "dp=4", "dp=5", "dp=6", "dp=3,ep=2", "dp=2,ep=3", "ep=3,dp=2", "dp=7", "dp=8", "dp=2,ep=4", "dp=2,ep=3 order=5,1,0,2,4,3"} {
			m, err := sharding.ParseMesh(mesh)
			require.NoError(t, err)
			cfg := gomoe.Config{Mesh: m, Place: place, Exact: blocks, Check: true}
			cfg.Poison = true
			got, err := gomoe.Run(context.Background(), p, cfg, in)
			require.NoError(t, err, "%s on %q", c.src, mesh)
			for i := range want {
				require.Equal(t, want[i], array.Data[float32](got[i]), "%s on %q", c.src, mesh)
			}
		}
	}
}
