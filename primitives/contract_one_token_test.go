package primitives_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// One token of 7168 numbers with 8 of 256 experts, which every rank has, is one exchange in a
// layer, no dispatch: a row for each choice, or the sum of each rank's rows, in f32 or narrower.
func TestContractOneTokenIsOneSum(t *testing.T) {
	for _, c := range []struct {
		exchange ep.Exchange
		wire     graph.DType
		bytes    int64
	}{{ep.Rows, graph.NoDType, 8 * 28_672}, {ep.Sum, graph.NoDType, 28_672}, {ep.Sum, graph.BF16, 14_336}, {ep.Sum, graph.F16, 14_336}} {
		p := trace(t, func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(primitives.PrepareOp{Experts: 256, Exchange: c.exchange, Wire: c.wire}, tr.Input("idx", graph.I32, 1, 8))
			return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, tr.Input("x", graph.F32, 1, 7168)))}
		})
		for _, mesh := range []string{"ep=2", "ep=4", "ep=3"} {
			plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Mesh: spread{mesh: mesh}.parse(t)})
			require.NoError(t, err)
			made := plan.Report(1).Comm.Collectives
			if len(made) != 1 || made[0].Op != "all_sum" || made[0].Bytes != c.bytes {
				t.Errorf("%s, exchange %v, wire %s: %+v, want one all_sum of %d bytes\n%s", mesh, c.exchange, c.wire, made, c.bytes, plan)
			}
		}
		t.Logf("exchange %v, wire %s: one all_sum of %d bytes", c.exchange, c.wire, c.bytes)
	}
}
