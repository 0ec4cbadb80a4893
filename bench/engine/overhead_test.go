package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
)

// scalarProgram is 20 equations over one number each, so that a step of it is
// what a step costs besides arithmetic.
func scalarProgram() (*graph.Program, error) {
	return graph.Trace("scalar", func(t *graph.Tracer) []*graph.Value {
		x, y := t.Input("x", graph.F32), t.Input("y", graph.F32)
		v := x
		for range 5 {
			v = primitives.Add(primitives.Mul(primitives.Tanh(v), y), primitives.Sub(x, v))
		}
		return []*graph.Value{v}
	})
}

// BenchmarkScalarProgram runs it on one rank: on arrays that are placed, as
// training does, from the host and back, and with every equation an instruction
// of its own.
func BenchmarkScalarProgram(b *testing.B) {
	p, err := scalarProgram()
	require.NoError(b, err)
	require.Len(b, p.Eqns, 20)
	in := map[string]array.Array{"x": array.Scalar[float32](0.5), "y": array.Scalar[float32](1.5)}
	for _, c := range []struct {
		name string
		cfg  gomoe.Config
		step bool
	}{{"run", gomoe.Config{}, false}, {"step", gomoe.Config{}, true}, {"as_written", gomoe.Config{Optimize: gomoe.Off}, false}} {
		b.Run(c.name, func(b *testing.B) {
			job, err := gomoe.Open(b.Context(), p, c.cfg)
			require.NoError(b, err)
			defer job.Close()
			placed := map[string]*runtime.Array{}
			for name, a := range in {
				placed[name], err = job.Put(name, a)
				require.NoError(b, err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if c.step {
					_, err = job.Step(context.Background(), in)
				} else {
					_, err = job.Run(context.Background(), placed)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkChain is seven elementwise equations, a broadcast row and constants over
// 4 Mi numbers: fused, and each on its own.
func BenchmarkChain(b *testing.B) {
	p, err := graph.Trace("chain", func(t *graph.Tracer) []*graph.Value {
		x, y, row := t.Input("x", graph.F32, 4096, 1024), t.Input("y", graph.F32, 4096, 1024), t.Input("row", graph.F32, 1024)
		v := primitives.Add(primitives.Mul(x, primitives.BroadcastInDim(row, x.Type.Shape, 1)), y)
		v = primitives.Mul(primitives.MulScalar(v, 0.5), primitives.Sub(v, y))
		return []*graph.Value{primitives.Max(primitives.AddScalar(v, 1), x)}
	})
	require.NoError(b, err)
	for _, c := range []struct {
		name string
		cfg  gomoe.Config
	}{{"fused", gomoe.Config{}}, {"as_written", gomoe.Config{Optimize: gomoe.Off}}} {
		b.Run(c.name, func(b *testing.B) {
			job, err := gomoe.Open(b.Context(), p, c.cfg)
			require.NoError(b, err)
			defer job.Close()
			in := map[string]*runtime.Array{}
			for _, v := range p.In {
				in[v.Name], err = job.Put(v.Name, array.New(v.Type))
				require.NoError(b, err)
			}
			b.ReportAllocs()
			for b.Loop() {
				out, err := job.Run(context.Background(), in)
				require.NoError(b, err)
				job.Recycle(out...)
			}
		})
	}
}
