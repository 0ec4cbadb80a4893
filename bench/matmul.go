package main

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	. "github.com/gomoe/gomoe/primitives"
)

// matmulWorkloads are square matrix products as programs of one equation.
func matmulWorkloads() []workload {
	var ws []workload
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		for _, n := range []int{512, 1024, 2048} {
			w := workload{
				name:  fmt.Sprintf("matmul/%s/%d", d, n),
				title: fmt.Sprintf("matrix product, %s, n=%d", d, n),
				peer:  fmt.Sprintf("matmul_%s", d), params: map[string]any{"n": n},
				flop: 2 * float64(n) * float64(n) * float64(n), tolerance: 1e-5, target: 1,
				threads: []int{1, 2}, peers: []string{openblasName, onednnName, torchName, peakName},
				open: func(threads int) (*subject, error) { return openMatmul(d, n, threads) },
			}
			if d == graph.BF16 {
				w.tolerance, w.peers = 1e-2, []string{onednnName, torchName, peakName}
			}
			ws = append(ws, w)
		}
	}
	return ws
}

// openMatmul opens c f32[n,n] = a[n,n] b[n,n].
func openMatmul(d graph.DType, n, threads int) (*subject, error) {
	p, err := graph.Trace("matmul", func(t *graph.Tracer) []*graph.Value {
		return []*graph.Value{MatMulAs(graph.F32, t.Input("a", d, n, n), t.Input("b", d, n, n))}
	})
	if err != nil {
		return nil, err
	}
	in := map[string]array.Array{"a": normal(1, 1, d, n, n), "b": normal(2, fanIn(n), d, n, n)}
	return ofProgram(p, threads, in, "c")
}
