package gomoe_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// Moments that are split over the ranks of the batch take each rank's part of the gradient
// by one reduce_scatter, without an all_sum, and new weights come back by all_gather, to the
// bits of a step with whole moments. Weights that are split too are gathered where they are
// used. Sizes need not divide.
func TestSplitMoments(t *testing.T) {
	p, err := graph.Trace("step", func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F32, 12, 6)
		rate, step := tr.Input("rate", graph.F32), tr.Input("step", graph.I32)
		var w, m, v []*graph.Value
		for _, in := range []struct {
			name  string
			shape []int
		}{{"a", []int{6, 8}}, {"b", []int{8, 5}}, {"c", []int{5}}} {
			w = append(w, tr.Input("w_"+in.name, graph.F32, in.shape...))
			m = append(m, tr.Input("m_"+in.name, graph.F32, in.shape...))
			v = append(v, tr.Input("v_"+in.name, graph.F32, in.shape...))
		}
		whole := func(i int) *graph.Value { return primitives.ShardingConstraint(w[i]) }
		y := primitives.Add(primitives.MatMul(primitives.GELU(primitives.MatMul(x, whole(0))), whole(1)), primitives.BroadcastTo(whole(2), 12, 5))
		loss := primitives.ReduceSum(primitives.Square(y))
		out := []*graph.Value{loss}
		for i, g := range vjp.Gradients(loss, w...) {
			a, b, c := primitives.AdamW(w[i], m[i], v[i], graph.PlaceLike(g, m[i]), rate, step, primitives.OnesLike(rate), primitives.AdamWOp{B1: 0.9, B2: 0.95, Eps: 1e-8})
			out = append(out, a, b, c)
		}
		return out
	})
	require.NoError(t, err)
	in := map[string]array.Array{"rate": array.Scalar[float32](1e-2), "step": array.Scalar[int32](3)}
	for k, v := range p.In {
		if _, ok := in[v.Name]; ok {
			continue
		}
		a := array.New(v.Type)
		for i := range array.Data[float32](a) {
			array.Data[float32](a)[i] = float32(((i+k)*7919)%101) / 101
		}
		in[v.Name] = a
	}
	for _, c := range []struct{ mesh, batch, first string }{
		{"dp=2", "dp", "dp"}, {"dp=3", "dp", "dp"}, {"dp=2,ep=2", "dp.ep", "dp.ep"}, {"dp=2,tp=2", "dp", "dp"}, {"dp=4", "dp", "_,dp"},
	} {
		for _, optimize := range []gomoe.Switch{gomoe.On, gomoe.Off} {
			config := func(prefixes ...string) gomoe.Config {
				m, err := sharding.ParseMesh(c.mesh)
				require.NoError(t, err)
				batch, err := sharding.ParseSpec(c.batch)
				require.NoError(t, err)
				cfg := gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": batch}, Donate: map[string]int{}, Check: true, Optimize: optimize}
				for _, prefix := range prefixes {
					split, err := sharding.ParseSpec(c.first)
					require.NoError(t, err)
					cfg.Place[prefix+"a"], cfg.Place[prefix+"b"] = split, split
					if len(split.Dims) > 1 {
						split = sharding.Split("dp")
					}
					cfg.Place[prefix+"c"] = split
				}
				for i, name := range []string{"a", "b", "c"} {
					for j, prefix := range []string{"w_", "m_", "v_"} {
						cfg.Donate[prefix+name] = 1 + 3*i + j
					}
				}
				return cfg
			}
			want, err := gomoe.Run(context.Background(), p, config(), in)
			require.NoError(t, err)
			for _, prefixes := range [][]string{{"m_", "v_"}, {"w_", "m_", "v_"}} {
				cfg := config(prefixes...)
				plan, err := gomoe.Compile(t.Context(), p, cfg)
				require.NoError(t, err)
				made := exchanges(plan)
				if made["reduce_scatter"] != 3 || made["all_sum"] != 0 || made["all_gather"] < 3 {
					t.Errorf("%s %v: %v, want three reduce_scatters and all_gathers, and no all_sum\n%s", c.mesh, prefixes, made, plan)
				}
				got, err := gomoe.Run(context.Background(), p, cfg, in)
				require.NoError(t, err)
				for i := range want {
					if !array.Equal(got[i], want[i]) {
						t.Errorf("%s %v: result %d is %v, want %v", c.mesh, prefixes, i, got[i], want[i])
					}
				}
			}
		}
	}
}

// exchanges counts what exchanges the program asks for, by name: those that were joined count
// as as many as they were.
func exchanges(p *lowering.Plan) map[string]int {
	made, packed := map[string]int{}, map[int]int{} // packed: of a buffer, the arrays in it
	for i := range p.Instrs {
		in := &p.Instrs[i]
		switch {
		case in.Name() == "join_parts":
			packed[in.Out[0]] = len(in.In)
		case in.Communicates():
			made[in.Name()] += max(len(in.In), packed[in.In[0]])
		}
	}
	return made
}
