package engine_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	. "github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
)

// denseBlock is gelu(x·w + b), x[T,D], w[D,F].
func denseBlock(d graph.DType, tokens, hidden, width int) (*graph.Program, error) {
	return graph.Trace("dense", func(t *graph.Tracer) []*graph.Value {
		y := MatMul(t.Input("x", d, tokens, hidden), t.Input("w", d, hidden, width))
		return []*graph.Value{GELUTanh(Add(y, BroadcastInDim(t.Input("b", d, width), y.Type.Shape, 1)))}
	})
}

// BenchmarkEpilogue runs products with bias and GELU behind them, in turns: with both
// done to tiles of the product, behind it in one pass (fused), and as written. ns/op is
// the time of all three; what tells is the least time of each. The largest is the one
// that is in tiles unless a plan is asked for others.
func BenchmarkEpilogue(b *testing.B) {
	for _, c := range []struct {
		d                     graph.DType
		tokens, hidden, width int
	}{{graph.F32, 1024, 512, 1024}, {graph.F32, 1024, 128, 4096}, {graph.F32, 4096, 128, 4096}, {graph.BF16, 1024, 512, 1024}, {graph.BF16, 1024, 128, 4096}} {
		b.Run(fmt.Sprintf("%s/%dx%dx%d", c.d, c.tokens, c.hidden, c.width), func(b *testing.B) {
			p, err := denseBlock(c.d, c.tokens, c.hidden, c.width)
			require.NoError(b, err)
			var steps []func()
			rng := rand.New(rand.NewPCG(1, 2))
			for _, cfg := range []gomoe.Config{{Tile: 1}, {Tile: -1}, {NoOptimize: true}} {
				job, err := gomoe.Open(p, cfg)
				require.NoError(b, err)
				defer job.Close()
				in := map[string]*runtime.Array{}
				for _, v := range p.In {
					a := array.New(v.Type.With(graph.F32))
					for i := range array.Data[float32](a) {
						array.Data[float32](a)[i] = float32(rng.NormFloat64() / 16)
					}
					in[v.Name], err = job.Put(v.Name, a.As(v.Type.DType))
					require.NoError(b, err)
				}
				out := make([]*runtime.Array, len(p.Out))
				steps = append(steps, func() { require.NoError(b, job.RunInto(context.Background(), in, out)) })
			}
			least := [3]float64{math.Inf(1), math.Inf(1), math.Inf(1)}
			for b.Loop() {
				for i, step := range steps {
					began := time.Now()
					step()
					least[i] = min(least[i], time.Since(began).Seconds()*1e3)
				}
			}
			b.ReportMetric(least[0], "ms-tiled")
			b.ReportMetric(least[1], "ms-fused")
			b.ReportMetric(least[2], "ms-written")
			b.ReportMetric(least[0]/least[1], "tiled/fused")
			b.ReportMetric(least[0]/least[2], "tiled/written")
		})
	}
}
