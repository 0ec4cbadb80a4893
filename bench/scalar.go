package main

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// scalarWorkloads returns workloads measuring the overhead of a step: a program of 20 equations
// over scalars.
func scalarWorkloads() []workload {
	return []workload{{
		name: "scalar/20", title: "a step of 20 equations over scalars, f32", peer: "scalar",
		tolerance: 1e-5, target: 1, threads: []int{1, 2}, peers: []string{jaxName, torchName},
		open: func(threads int) (*subject, error) {
			p, err := graph.Trace("scalar", func(t *graph.Tracer) []*graph.Value {
				x, y := t.Input("x", graph.F32), t.Input("y", graph.F32)
				for range 5 { // 4 equations each, which no pass removes
					x, y = primitives.Tanh(primitives.Add(primitives.Mul(x, y), x)), primitives.Sub(y, x)
				}
				return []*graph.Value{x.Named("x2"), y.Named("y2")}
			})
			if err != nil {
				return nil, err
			}
			in := map[string]array.Array{"x": array.Scalar(float32(0.3)), "y": array.Scalar(float32(0.7))}
			return ofProgram(p, threads, in, "x", "y")
		},
	}}
}
