package primitives_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// named returns the plan of the loss of a layer and of the gradient of its weights, on
// two ranks that each have half of the rows.
func named(t *testing.T) *lowering.Plan {
	t.Helper()
	p, err := graph.Trace("linear", func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F32, 8, 4)
		w := tr.Input("layers.0.w", graph.F32, 4, 2)
		layer := func() *graph.Value {
			defer tr.Scope("layers.%d", 0)()
			y := primitives.MatMul(x, w).Named("hidden")
			return primitives.Exp(y)
		}
		loss := primitives.ReduceSum(primitives.Log(layer()), 0, 1)
		return []*graph.Value{loss, vjp.Gradients(loss, w)[0]}
	})
	require.NoError(t, err)
	mesh, err := sharding.ParseMesh("dp=2")
	require.NoError(t, err)
	a, err := sharding.Propagate(t.Context(), p, mesh, map[string]sharding.Spec{"x": sharding.Split("dp", "")})
	require.NoError(t, err)
	plan, err := lowering.Lower(t.Context(), a, lowering.Options{})
	require.NoError(t, err)
	return plan
}

// The plan says which part of the model an instruction belongs to, and which of the
// program's names its result has. Instructions of a derivative belong to the part whose
// derivative they are.
func TestPlanNames(t *testing.T) {
	text := named(t).String()
	for _, want := range []string{
		`= dot_general(b0@in, b1@in) lhs_contract=[1] rhs_contract=[0] # plan_names_test.go:25 (layers.0): hidden` + "\n",
		`lhs_contract=[0] rhs_contract=[0] # plan_names_test.go:25 (layers.0)` + "\n",
		`= log(`, ` # plan_names_test.go:28` + "\n",
		` over dp #1 f32 32 bytes # plan_names_test.go:29: grad(layers.0.w)` + "\n",
		`	out grad(layers.0.w) f32[4,2] `,
		`	in  layers.0.w   f32[4,2] `,
	} {
		require.Contains(t, text, want)
	}
	exps := 0
	for line := range strings.Lines(text) {
		if strings.Contains(line, "exp(") {
			exps++
			require.Contains(t, line, "(layers.0)")
		}
	}
	require.NotZero(t, exps)
}

// So do the reports.
func TestReportNames(t *testing.T) {
	r := named(t).Report(1)
	require.Equal(t, "grad(layers.0.w)", r.Comm.Collectives[1].Value)
	text := r.String()
	require.Contains(t, text, `place_like (grad(layers.0.w))`)
	require.Contains(t, text, `temporary dot_general (hidden)`)
	require.Contains(t, text, "plan_names_test.go:25 (layers.0)\n")
	require.Contains(t, text, "input layers.0.w")
}
