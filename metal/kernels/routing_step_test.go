package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// A training step of a whole layer, whose tokens are routed by what they are, in two layers
// one after the other: with the gradients, the rows of a routing travel four times.
func TestRoutedStep(t *testing.T) {
	const tokens, k, hidden, experts = 24, 2, 16, 8
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		loss, err := graph.Trace("step", func(tr *graph.Tracer) []*graph.Value {
			x, router, up := tr.Input("x", d, tokens, hidden), tr.Input("router", graph.F32, hidden, experts), tr.Input("up", d, experts, hidden, hidden)
			for i := range 2 {
				logits := primitives.MatMul(primitives.ConvertElementType(x, graph.F32), router)
				weights, ids, _ := primitives.Route(primitives.RouteOp{TopK: k, Renormalize: true}, logits, nil)
				r := primitives.Prepare(primitives.PrepareOp{Experts: experts, Capacity: 7, Align: 1 + 3*i, Label: fmt.Sprint(i)}, ids)
				rows, rowWeights := primitives.DispatchWeighted(r, x, weights)
				y := primitives.GroupedMatMul(r, rows, up)
				y = primitives.ConvertElementType(primitives.Mul(primitives.ConvertElementType(y, graph.F32), primitives.BroadcastInDim(rowWeights, y.Type.Shape, 0)), d)
				x = primitives.Add(x, primitives.Combine(r, y))
			}
			return []*graph.Value{primitives.ReduceSum(primitives.ConvertElementType(primitives.Mul(x, x), graph.F32), 0, 1)}
		})
		require.NoError(t, err)
		p, err := vjp.Grad(loss, "x", "router", "up")
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(1, 2))
		in := map[string]array.Array{}
		for _, v := range p.In {
			in[v.Name] = randomFloats(r, v.Type)
		}
		for _, mesh := range []string{"", "ep=2", "dp=2,ep=2"} {
			cfg, names := tokensOn(t, mesh, "x"), append([]string{"router"}, here...)
			if mesh != "" {
				cfg.Place["up"] = sharding.Split("ep")
				names = append([]string{"router"}, away...)
			}
			t.Run(fmt.Sprint(d, " mesh ", mesh), func(t *testing.T) { compare(t, p, cfg, in, names...) })
		}
	}
}
