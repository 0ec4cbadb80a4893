package main

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/primitives"
)

// matmulWorkloads returns square matrix products: as programs of one equation and, with one thread,
// as calls of the kernel alone.
func matmulWorkloads() []workload {
	var ws []workload
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		for _, n := range []int{512, 1024, 2048} {
			w := workload{
				name:  fmt.Sprintf("matmul/%s/%d", d, n),
				title: fmt.Sprintf("matrix product, %s, n=%d", d, n),
				peer:  fmt.Sprintf("matmul_%s", d), params: map[string]any{"n": n},
				flop: 2 * float64(n) * float64(n) * float64(n), tolerance: 1e-5, target: 1 / 0.95,
				threads: []int{1, 2}, peers: []string{openblasName, onednnName, torchName, peakName},
				open: func(threads int) (*subject, error) { return openMatmul(d, n, threads) },
			}
			if d == graph.BF16 {
				w.tolerance, w.target, w.peers = 1e-2, 1/0.8, []string{onednnName, torchName, peakName}
			} else {
				alone := w
				alone.name, alone.title = fmt.Sprintf("kernel/%s/%d", d, n), fmt.Sprintf("matrix product, %s, n=%d, gomoe's kernel without a program", d, n)
				alone.threads, alone.open = []int{1}, func(threads int) (*subject, error) { return openKernel(n, threads) }
				ws = append(ws, alone)
			}
			ws = append(ws, w)
		}
	}
	return ws
}

// openMatmul opens c f32[n,n] = a[n,n] · b[n,n] with a and b of type d.
func openMatmul(d graph.DType, n, threads int) (*subject, error) {
	p, err := graph.Trace("matmul", func(t *graph.Tracer) []*graph.Value {
		return []*graph.Value{primitives.MatMulAs(graph.F32, t.Input("a", d, n, n), t.Input("b", d, n, n))}
	})
	if err != nil {
		return nil, err
	}
	in := map[string]array.Array{"a": normal(1, 1, d, n, n), "b": normal(2, fanIn(n), d, n, n)}
	return ofProgram(p, threads, in, "c")
}

// openKernel opens the product without a program: a step is one call of the kernel, starting no
// goroutines.
func openKernel(n, threads int) (*subject, error) {
	if threads != 1 {
		return nil, fmt.Errorf("the kernel alone runs on one thread, not on %d", threads)
	}
	a, b, c := normal(1, 1, graph.F32, n, n), normal(2, fanIn(n), graph.F32, n, n), array.New(graph.T(graph.F32, n, n))
	x, y, z := array.Data[float32](a), array.Data[float32](b), array.Data[float32](c)
	step := func() error {
		gemm.Multiply(n, n, n, x, n, 1, y, n, 1, z, n, false)
		return nil
	}
	return &subject{in: map[string]array.Array{"a": a, "b": b}, want: map[string]array.Array{"c": c}, step: step, close: func() error { return nil }}, step()
}
