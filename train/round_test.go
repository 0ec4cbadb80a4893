package train

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// Weights of bf16 follow a gradient whose steps are far below what they can hold, with the same bits on every mesh, and
// stand still if they are rounded to the nearest.
func TestStochasticStep(t *testing.T) {
	const n, steps = 64, 40
	of := func(mesh string, stochastic bool, zero Zero) []float64 {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		p, err := Trace("step", Config{Optimizer: SGD(SGDOptions{}), Stochastic: stochastic, Zero: zero, Batch: []string{"dp"}, Model: nn.Options{DType: graph.BF16}}, func(s *nn.Scope) (*graph.Value, []*graph.Value) {
			w := s.Param("w", "", nn.Init{Mean: 1}, []string{"ep"}, n, n)
			return primitives.ReduceSum(primitives.ConvertElementType(w, graph.F32)), nil
		})
		require.NoError(t, err)
		run, err := Open(t.Context(), p, gomoe.Config{Mesh: m})
		require.NoError(t, err)
		defer run.Close()
		require.NoError(t, run.Init(t.Context(), 1))
		for i := range steps {
			_, err := run.Step(t.Context(), i+1, 0x1p-13, nil)
			require.NoError(t, err)
		}
		a, err := run.Job.Get(t.Context(), run.State()["w"])
		require.NoError(t, err)
		return a.Float64s()
	}
	want := of("", true, ZeroOff)
	sum := 0.0
	for _, x := range want {
		sum += x
	}
	// 4096 elements take 40 steps, each of which has a variance of at most 2^-13·2^-7.
	if mean, path := sum/(n*n), 1-steps*0x1p-13; math.Abs(mean-path) > 5*math.Sqrt(steps*0x1p-20/(n*n)) {
		t.Errorf("the mean weight is %v, want %v", mean, path)
	}
	for _, x := range of("", false, ZeroOff) {
		if x != 1 {
			t.Fatalf("rounded to the nearest, a weight has moved to %v", x)
		}
	}
	for _, mesh := range []string{"ep=2", "dp=2,ep=2", "dp=4"} {
		for _, zero := range []Zero{ZeroOff, ZeroWeights} {
			if got := of(mesh, true, zero); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("other weights on %s, zero %q", mesh, zero)
			}
		}
	}
}
