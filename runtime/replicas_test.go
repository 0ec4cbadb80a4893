package runtime_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/runtime"
)

// apart runs steps of a program on the mesh a=2,b=2 with a session for each rank, as
// processes do. Before a step, in may change a rank's inputs: x f64[8], which is split over
// a, w f64[8] and rate f64. apart returns each rank's error of its first failed step.
func apart(t *testing.T, compare, steps int, in func(rank, step int, in map[string][]float64)) []error {
	t.Helper()
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x, w, rate := tr.Input("x", graph.F64, 8), tr.Input("w", graph.F64, 8), tr.Input("rate", graph.F64)
		return []*graph.Value{toy.Sum(toy.Mul(toy.Mul(x, w), toy.Spread(rate, 8)))}
	})
	l := plan(t, p, toy.Setup{Mesh: "a=2,b=2", Place: map[string]string{"x": "a"}})
	comms, err := engine.Local(4, jaccl.Options{})
	require.NoError(t, err)
	errs := make([]error, len(comms))
	var wg sync.WaitGroup
	for rank := range comms {
		s, err := runtime.Open(l, comms[rank:rank+1], runtime.Options{Compare: compare})
		require.NoError(t, err)
		wg.Go(func() {
			defer s.Close()
			for step := 0; step < steps && errs[rank] == nil; step++ {
				mine := map[string][]float64{"x": ramp(8).Float64s(), "w": ramp(8).Float64s(), "rate": {0.5}}
				in(rank, step, mine)
				arrays := map[string]array.Array{"x": f64(mine["x"]...), "w": f64(mine["w"]...), "rate": array.Scalar(mine["rate"][0])}
				_, errs[rank] = toy.Eval(context.Background(), s, arrays)
			}
		})
	}
	wg.Wait()
	return errs
}

// If ranks of several processes have different inputs where they must have the same, the
// errors of all ranks name the input and the ranks whose elements differ from most.
func TestInputsCompared(t *testing.T) {
	const advice = "; start all ranks with the same flags (-lr, -seed, -data and others), files and kernels"
	for name, c := range map[string]struct {
		change func(rank, step int, in map[string][]float64)
		want   string
	}{
		"all the same": {func(int, int, map[string][]float64) {}, ""},
		"a scalar": {func(rank, _ int, in map[string][]float64) {
			if rank == 1 {
				in["rate"][0] = 0.25
			}
		}, "runtime: input rate f64[] of p is not the same on all ranks that hold it, before step 1: rank 1 has 0.25 where ranks 0, 2 and 3 have 0.5" + advice},
		"the first rank is the odd one, in one bit": {func(rank, _ int, in map[string][]float64) {
			if rank == 0 {
				in["w"][6] *= 1 + 0x1p-52
			}
		}, "runtime: input w f64[8] of p is not the same on all ranks that hold it, before step 1: rank 0 has other elements than ranks 1, 2 and 3" + advice},
		"replicas of a split array": {func(rank, _ int, in map[string][]float64) {
			if rank == 3 {
				in["x"][5]++ // in the second half
			}
		}, "runtime: input x f64[8@a] of p is not the same on all ranks that hold it, before step 1: rank 3 has other elements than rank 2" + advice},
		"parts that the rank does not hold": {func(rank, _ int, in map[string][]float64) {
			if rank == 3 {
				in["x"][2]++
			}
		}, ""},
		"parts without replicas differ by nature": {func(rank, _ int, in map[string][]float64) {
			if rank >= 2 {
				in["x"][5]++
			}
		}, ""},
		"several": {func(rank, _ int, in map[string][]float64) {
			if rank == 2 {
				in["x"][5], in["w"][0], in["rate"][0] = 3, 3, 3
			}
		}, "runtime: input x f64[8@a] of p is not the same on all ranks that hold it, before step 1: rank 3 has other elements than rank 2 (also: w, rate)" + advice},
		"later, within the first 200 steps": {func(rank, step int, in map[string][]float64) {
			if step > 0 && rank == 1 {
				in["rate"][0]++
			}
		}, ""},
	} {
		for rank, err := range apart(t, 0, 3, c.change) {
			if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
				t.Errorf("%s: rank %d: %v, want %q", name, rank, err, c.want)
			}
		}
	}
}

// Inputs are compared again after as many steps as the option says, and never again if
// that is negative.
func TestInputsComparedAgain(t *testing.T) {
	for compare, want := range map[int]string{3: ", before step 4: rank 1 has 1.5 where ranks 0, 2 and 3 have 0.5", -1: "", 0: ""} {
		for rank, err := range apart(t, compare, 8, func(rank, step int, in map[string][]float64) {
			if rank == 1 && step >= 2 {
				in["rate"][0]++
			}
		}) {
			if want == "" && err != nil {
				t.Errorf("every %d: rank %d: %v", compare, rank, err)
			} else if want != "" {
				require.ErrorContains(t, err, want, "every %d: rank %d", compare, rank)
			}
		}
	}
}
