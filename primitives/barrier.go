package primitives

import "github.com/gomoe/gomoe/graph"

// Barrier returns the values x unchanged. Nothing merges across it: no pass replaces
// what is computed from the results by what is computed from x. What is computed from
// one result is computed after all of x are there. It costs nothing in a run. vjp.Remat
// uses barriers to compute values a second time in the backward pass.
func Barrier(x ...*graph.Value) []*graph.Value {
	graph.Helper()
	if len(x) == 0 {
		graph.Fail("barrier: no values, want at least one")
	}
	out := make([]*graph.Value, len(x))
	for i, v := range x {
		args := []*graph.Value{v}
		for j, w := range x {
			if j != i {
				args = append(args, w)
			}
		}
		out[i] = graph.Apply1(graph.BarrierOp{}, args...)
	}
	return out
}
