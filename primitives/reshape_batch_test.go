package primitives_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// Rows of a batch are merged and taken apart wherever the batch is split, with the elements
// of one rank, and come back to where the batch lies.
func TestReshapeBatch(t *testing.T) {
	exchanged := 0
	for _, mesh := range []string{"", "a=2", "a=3", "a=2,b=2", "b=2,a=3"} {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		for _, shape := range [][]int{{4, 6, 2}, {1, 6, 2}, {2, 5, 2}, {2, 3, 4, 2}, {3, 0, 2}, {2, 6, 4}} {
			for _, place := range []string{"", "a", "_,a", "_,a.b", "a,b", "b,a", "_,_,a", "b,_,a", "_,b,a"} {
				spec, err := sharding.ParseSpec(place)
				require.NoError(t, err)
				spec = spec.On(m)
				rows := 1
				for _, n := range shape[:len(shape)-1] {
					rows *= n
				}
				typ := graph.T(graph.F32, shape...)
				p, err := gomoe.Parse("batch", fmt.Sprintf("program p(x %s) {\n y = reshape(x) shape=[%d,%d] batch=true\n z = mul(y, y)\n w = reshape(z, x) shape=%s batch=true\n u = add(w, x)\n return y, u\n}",
					typ, rows, shape[len(shape)-1], typ.String()[3:]))
				require.NoError(t, err)
				where := fmt.Sprintf("%s@%s on %q", typ, place, mesh)
				x := array.New(typ)
				for i := range array.Data[float32](x) {
					array.Data[float32](x)[i] = float32(i)
				}
				cfg := gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": spec}, Check: true}
				plan, err := gomoe.Compile(t.Context(), p, cfg)
				if err != nil {
					// 3 rows of 2 are not split as 6, and the elements of no rows are split in no way.
					require.Regexp(t, "do not divide alike|dimension 2 of argument 0 is split over a and must be whole", err.Error(), where)
					continue
				}
				require.Equal(t, plan.In[0].Spec.Format(typ), plan.Out[1].Spec.Format(typ), where)
				for _, in := range plan.Instrs {
					if in.Communicates() {
						require.Equal(t, "all_to_all", in.Name(), where)
						exchanged++
					}
				}
				out, err := gomoe.Run(t.Context(), p, cfg, map[string]array.Array{"x": x})
				require.NoError(t, err, where)
				for i, v := range array.Data[float32](x) {
					if y, u := array.Data[float32](out[0])[i], array.Data[float32](out[1])[i]; y != v || u != v*v+v {
						t.Fatalf("%s: element %d is %v and %v, want %v and %v\n%s", where, i, y, u, v, v*v+v, plan)
					}
				}
			}
		}
	}
	require.Greater(t, exchanged, 60)
}

// The tokens of an MoE layer may be split in any dimension of the batch: the layer returns
// the bits of one rank, placed as the tokens are, and gradients that agree. The user's
// program has no transposition and no placement of its own.
func TestLayerOfSplitSequences(t *testing.T) {
	const tokens, hidden, experts = 6, 4, 4
	for _, batch := range []int{1, 2, 4} {
		p, err := graph.Trace("layer", func(t *graph.Tracer) []*graph.Value {
			x := t.Input("x", graph.F32, batch, tokens*2, hidden)
			router, up := t.Input("router", graph.F32, hidden, experts), t.Input("up", graph.F32, experts, hidden, hidden)
			logits := primitives.MatMul(x, router)
			weights, chosen, scores := primitives.Route(primitives.RouteOp{TopK: 2, Renormalize: true}, logits, nil)
			r := primitives.Prepare(primitives.PrepareOp{Experts: experts, Capacity: 3 * batch * tokens}, chosen)
			rows, rowWeights := primitives.DispatchWeighted(r, x, weights)
			y := primitives.GroupedMatMul(r, rows, up)
			y = primitives.Mul(y, primitives.BroadcastInDim(rowWeights, y.Type.Shape, 0))
			out := primitives.Add(x, primitives.Combine(r, y))
			balance := primitives.LoadBalanceLoss(scores, r.Demand, 2)
			loss := primitives.Add(primitives.ReduceSum(primitives.Mul(out, out), 0, 1, 2), balance)
			grads := vjp.Gradients(loss, x, router, up)
			return append([]*graph.Value{out, loss}, grads...)
		})
		require.NoError(t, err)
		rng := rand.New(rand.NewPCG(1, 2))
		in := map[string]array.Array{}
		for _, v := range p.In {
			a := array.New(v.Type)
			for i := range array.Data[float32](a) {
				array.Data[float32](a)[i] = float32(rng.NormFloat64())
			}
			in[v.Name] = a
		}
		want, err := gomoe.Run(t.Context(), p, gomoe.Config{}, in)
		require.NoError(t, err)
		for _, c := range []struct{ mesh, place string }{{"ep=2", "_,ep"}, {"ep=4", "_,ep"}, {"dp=2,ep=2", "dp,ep"}, {"dp=2,ep=2", "_,dp.ep"}, {"dp=2,ep=2", "ep,dp"}} {
			if batch == 1 && c.place[0] != '_' {
				continue
			}
			m, err := sharding.ParseMesh(c.mesh)
			require.NoError(t, err)
			spec, err := sharding.ParseSpec(c.place)
			require.NoError(t, err)
			where := fmt.Sprintf("batch %d, x@%s on %s", batch, c.place, c.mesh)
			cfg := gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": spec, "up": sharding.Split("ep")}, Check: true}
			plan, err := gomoe.Compile(t.Context(), p, cfg)
			require.NoError(t, err, where)
			require.Equal(t, spec.Format(p.In[0].Type), plan.Out[0].Spec.Format(p.In[0].Type), where)
			got, err := gomoe.Run(t.Context(), p, cfg, in)
			require.NoError(t, err, where)
			require.True(t, array.Equal(got[0], want[0]), where)
			for i := 1; i < len(got); i++ {
				most := 0.0
				for _, v := range want[i].Float64s() {
					most = max(most, math.Abs(v))
				}
				if d, at := array.MaxDiff(got[i], want[i]); d > 1e-6*most {
					t.Errorf("%s: result %d differs by %v at %d", where, i, d, at)
				}
			}
		}
	}
}

// The number of experts is checked where the tokens have several dimensions, too.
func TestPrepareOfBatchChecksExperts(t *testing.T) {
	_, err := graph.Trace("p", func(t *graph.Tracer) []*graph.Value {
		_, chosen, _ := primitives.Route(primitives.RouteOp{TopK: 2}, t.Input("logits", graph.F32, 2, 3, 4), nil)
		return []*graph.Value{primitives.Prepare(primitives.PrepareOp{Experts: 8}, chosen).Value}
	})
	require.ErrorContains(t, err, "prepare: 8 experts, but the choices are made of logits f32[6,4] for 4; give PrepareOp.Experts as many")
}
