package primitives_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// Heads of queries are split over more ranks than there are heads of keys, which every rank then
// has whole: nothing is gathered, results have the bits of one rank, and gradients of keys and
// values are one sum each.
func TestAttentionFewHeadsOfKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, c := range []struct {
		mesh    string
		s, n, m int
	}{
		{"tp=4", 5, 4, 1}, {"tp=4", 1, 4, 1}, {"tp=4", 1, 8, 2}, {"dp=2,tp=4", 6, 8, 2}, {"tp=2", 1, 6, 3}, {"tp=2", 4, 6, 3},
		{"tp=4", 1, 6, 2}, {"tp=4", 3, 6, 3}, {"tp=4", 1, 2, 1}, {"tp=4", 70, 6, 2},
	} {
		const b, room, d, w = 2, 90, 8, 12
		what := fmt.Sprintf("%+v", c)
		src := fmt.Sprintf("program p(q f32[%d,%d,%d,%d], k f32[%[1]d,%[5]d,%[6]d,%[4]d], v f32[%[1]d,%[5]d,%[6]d,%[7]d], n i32[%[1]d], s f32[%[3]d]) {\n out, lse = attention(q, k, v, n, s) lengths=true sinks=true\n return out, lse\n}",
			b, c.s, c.n, d, room, c.m, w)
		p, err := gomoe.Parse("heads", src)
		require.NoError(t, err)
		pull, err := vjp.Pullback(p)
		require.NoError(t, err)
		in, forward := map[string]array.Array{}, map[string]array.Array{}
		for _, v := range pull.In {
			if v.Type.DType == graph.I32 {
				in[v.Name] = ids([]int32{room, 71}, b)
				continue
			}
			in[v.Name] = uniform(-1, 1)(r, v.Type)
		}
		for _, v := range p.In {
			forward[v.Name] = in[v.Name]
		}
		mesh, err := sharding.ParseMesh(c.mesh)
		require.NoError(t, err)
		batch := ""
		if mesh.Size("dp") > 1 {
			batch = "dp"
		}
		cfg := gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"q": sharding.Split(batch, "", "tp"), "k": sharding.Split(batch), "v": sharding.Split(batch), "n": sharding.Split(batch), "s": sharding.Split("tp")}}
		plan, err := gomoe.Compile(t.Context(), p, cfg)
		require.NoError(t, err, what)
		for _, i := range plan.Instrs {
			require.False(t, i.Communicates(), "%s: %s", what, plan)
		}
		sameBits(t, what, eval(t, cfg, src, forward)[0], eval(t, gomoe.Config{}, src, forward)[0])

		want, err := gomoe.Run(t.Context(), pull, gomoe.Config{}, in)
		require.NoError(t, err)
		got, err := gomoe.Run(t.Context(), pull, cfg, in)
		require.NoError(t, err, what)
		for i := range want {
			x := want[i].Float64s()
			for j, y := range got[i].Float64s() {
				if !(math.Abs(y-x[j]) <= 2e-5) {
					t.Fatalf("%s: element %d of %s is %v, want %v", what, j, pull.Out[i].Name, y, x[j])
				}
			}
		}
		plan, err = gomoe.Compile(t.Context(), pull, cfg)
		require.NoError(t, err)
		for _, i := range plan.Instrs {
			if i.Communicates() && i.Name() != "all_sum" && slices.Contains(i.Axes, "tp") {
				t.Errorf("%s: want sums of the gradients of keys and values alone:\n%s", what, plan)
			}
		}
	}
	// Splitting keys where they cannot be split is an error naming the remedy.
	p, err := gomoe.Parse("heads", "program p(q f32[1,2,6,4], k f32[1,2,3,4]) {\n out, lse = attention(q, k, k)\n return out\n}")
	require.NoError(t, err)
	mesh, err := sharding.ParseMesh("tp=2")
	require.NoError(t, err)
	_, err = gomoe.Compile(t.Context(), p, gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"q": sharding.Split("", "", "tp"), "k": sharding.Split("", "", "tp")}})
	require.ErrorContains(t, err, "do not divide alike over the 2 ranks of tp; gather it with sharding_constraint")
}
