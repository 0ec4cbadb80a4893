package train

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	pr "github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// A number is rounded to one of the two around it, and as often up as makes it the mean. Random numbers are even ones here,
// so that the count is exact.
func TestStochastic(t *testing.T) {
	const draws = 1 << 10
	inf := float32(math.Inf(1))
	for _, tt := range []struct {
		x, lo, hi float32
		up        int // of the draws
	}{
		{1, 1, 1, 0},
		{1 + 0x1p-9, 1, 1 + 0x1p-7, draws / 4},
		{1 + 0x1p-8, 1, 1 + 0x1p-7, draws / 2},
		{1 + 3*0x1p-9, 1, 1 + 0x1p-7, 3 * draws / 4},
		{1 - 0x1p-10, 1 - 0x1p-8, 1, 3 * draws / 4}, // below a power of two
		{1 - 0x1p-9, 1 - 0x1p-8, 1, draws / 2},
		{2 - 0x1p-8, 2 - 0x1p-7, 2, draws / 2},
		{2 - 0x1p-9, 2 - 0x1p-7, 2, 3 * draws / 4},
		{1.4921875 + 0x1p-10, 1.4921875, 1.5, draws / 8},
		{-1 - 0x1p-9, -1 - 0x1p-7, -1, 3 * draws / 4},
		{-3e-5, -0x1.f8p-16, -0x1.f6p-16, -1},
		{0, 0, 0, 0}, {0x1p-149, 0, 0, 0}, {inf, inf, inf, 0}, {-inf, -inf, -inf, 0},
		{math.MaxFloat32, inf, inf, 0}, {0x1.fep127, 0x1.fep127, 0x1.fep127, 0},
	} {
		p, err := graph.Trace("round", func(tr *graph.Tracer) []*graph.Value {
			x, u := tr.Input("x", graph.F32), tr.Input("u", graph.F32, draws)
			return []*graph.Value{stochastic(pr.BroadcastTo(x, draws), u)}
		})
		require.NoError(t, err)
		u := array.New(graph.T(graph.F32, draws))
		for i := range draws {
			array.Data[float32](u)[i] = float32(i) / draws
		}
		out, err := gomoe.Run(t.Context(), p, gomoe.Config{}, map[string]array.Array{"x": array.Scalar(tt.x), "u": u})
		require.NoError(t, err)
		up, sum := 0, 0.0
		for _, y := range out[0].Float64s() {
			switch sum += y; float32(y) {
			case tt.lo:
			case tt.hi:
				up++
			default:
				t.Fatalf("%g is rounded to %g, want %g or %g", tt.x, y, tt.lo, tt.hi)
			}
		}
		if tt.up >= 0 && up != tt.up {
			t.Errorf("%g is rounded up to %g %d times of %d, want %d", tt.x, tt.hi, up, draws, tt.up)
		}
		if gap := float64(tt.hi) - float64(tt.lo); gap > 0 && math.Abs(sum/draws-float64(tt.x)) > gap/draws {
			t.Errorf("%g is rounded to %g in the mean", tt.x, sum/draws)
		}
	}
}

// Weights of bf16 follow a gradient whose steps are far below what they can hold, with the same bits on every mesh, and
// stand still if they are rounded to the nearest.
func TestStochasticStep(t *testing.T) {
	const n, steps = 64, 40
	of := func(mesh string, stochastic bool, zero Zero) []float64 {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		p, err := Trace("step", Config{Optimizer: SGD(SGDOptions{}), Stochastic: stochastic, Zero: zero, Batch: []string{"dp"}, Model: nn.Options{DType: graph.BF16}}, func(s *nn.Scope) (*graph.Value, []*graph.Value) {
			w := s.Param("w", "", nn.Init{Mean: 1}, []string{"ep"}, n, n)
			return pr.ReduceSum(pr.ConvertElementType(w, graph.F32)), nil
		})
		require.NoError(t, err)
		run, err := Open(p, gomoe.Config{Mesh: m})
		require.NoError(t, err)
		defer run.Close()
		require.NoError(t, run.Init(1))
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
