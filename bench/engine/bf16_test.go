package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/vjp"
)

// halfMoELayer is moeLayer with rows and experts of element type d; the router and
// the sum of squares are f32.
func halfMoELayer(d graph.DType) (*graph.Program, error) {
	return graph.Trace("moe_layer", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", d, benchTokens, benchHidden)
		wr := t.Input("router", graph.F32, benchHidden, benchExperts)
		gate := t.Input("gate", d, benchExperts, benchHidden, benchFFN)
		up := t.Input("up", d, benchExperts, benchHidden, benchFFN)
		down := t.Input("down", d, benchExperts, benchFFN, benchHidden)
		weights, experts, _ := primitives.Route(primitives.RouteOp{TopK: benchTopK, Renormalize: true}, primitives.MatMul(primitives.ConvertElementType(x, graph.F32), wr), nil)
		r := primitives.Prepare(primitives.PrepareOp{Experts: benchExperts}, experts)
		rows, rw := primitives.DispatchWeighted(r, x, weights)
		y := primitives.GroupedMatMul(r, primitives.SwiGLU(primitives.GroupedMatMul(r, rows, gate), primitives.GroupedMatMul(r, rows, up)), down)
		out := primitives.Combine(r, primitives.ConvertElementType(primitives.Mul(primitives.ConvertElementType(y, graph.F32), primitives.BroadcastInDim(rw, y.Type.Shape, 0)), d))
		return []*graph.Value{primitives.MulScalar(primitives.ReduceSum(primitives.Square(primitives.ConvertElementType(out, graph.F32))), 0.5), out}
	})
}

// BenchmarkMoELayerBF16 is BenchmarkMoELayer in bf16 and f16, and in f32 beside
// them.
func BenchmarkMoELayerBF16(b *testing.B) {
	flop := 2.0 * benchTokens * benchTopK * 3 * benchHidden * benchFFN
	for _, d := range []graph.DType{graph.BF16, graph.F16, graph.F32} {
		forward, err := halfMoELayer(d)
		require.NoError(b, err)
		both, err := vjp.Grad(forward)
		require.NoError(b, err)
		for _, c := range []struct {
			name, mesh string
			p          *graph.Program
			flop       float64
		}{
			{"forward/1rank", "", forward, flop},
			{"forward/4ranks", "dp=2,ep=2", forward, flop},
			{"backward/1rank", "", both, 3 * flop},
			{"backward/4ranks", "dp=2,ep=2", both, 3 * flop},
		} {
			b.Run(d.String()+"/"+c.name, func(b *testing.B) {
				job, err := gomoe.Open(b.Context(), c.p, onMesh(b, c.mesh))
				require.NoError(b, err)
				defer job.Close()
				rng := rand.New(rand.NewPCG(1, 2))
				in := map[string]*runtime.Array{}
				for _, v := range c.p.In {
					a := array.New(v.Type.With(graph.F32))
					for i := range array.Data[float32](a) {
						array.Data[float32](a)[i] = float32(rng.NormFloat64() / 16)
					}
					in[v.Name], err = job.Put(v.Name, a.As(v.Type.DType))
					require.NoError(b, err)
				}
				b.ReportAllocs()
				for b.Loop() {
					_, err := job.Run(context.Background(), in)
					require.NoError(b, err)
				}
				b.ReportMetric(c.flop*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// BenchmarkKeptWeights measures the layer's forward pass with weights that stay, on one
// rank: with copies of them that are kept, and with copies in every product. Steps of
// both take turns; it reports the least of each in ms. The layers have 256 rows per
// expert, 16, and 2, as where a few tokens are decoded together; "T" are weights that
// are multiplied by transposed, as files of models have them.
func BenchmarkKeptWeights(b *testing.B) {
	for _, d := range []graph.DType{graph.BF16, graph.F32} {
		for _, layout := range []string{"", "T"} {
			for _, tokens := range []int{benchTokens, benchTokens / 16, 8} {
				b.Run(fmt.Sprintf("%s%s/%d", d, layout, tokens), func(b *testing.B) { benchKept(b, d, layout == "T", tokens) })
			}
		}
	}
}

func benchKept(b *testing.B, d graph.DType, transposed bool, tokens int) {
	p, err := graph.Trace("kept", func(t *graph.Tracer) []*graph.Value {
		in, out, product := []int{benchExperts, benchHidden, benchFFN}, []int{benchExperts, benchFFN, benchHidden}, primitives.GroupedMatMul
		if transposed {
			in, out, product = out, in, primitives.GroupedMatMulTransposed
		}
		x, wr := t.Input("x", d, tokens, benchHidden), t.Input("router", graph.F32, benchHidden, benchExperts)
		gate, up, down := t.Input("gate", d, in...), t.Input("up", d, in...), t.Input("down", d, out...)
		weights, experts, _ := primitives.Route(primitives.RouteOp{TopK: benchTopK, Renormalize: true}, primitives.MatMul(primitives.ConvertElementType(x, graph.F32), wr), nil)
		r := primitives.Prepare(primitives.PrepareOp{Experts: benchExperts}, experts)
		rows, rw := primitives.DispatchWeighted(r, x, weights)
		y := product(r, primitives.SwiGLU(product(r, rows, gate), product(r, rows, up)), down)
		return []*graph.Value{primitives.Combine(r, primitives.ConvertElementType(primitives.Mul(primitives.ConvertElementType(y, graph.F32), primitives.BroadcastInDim(rw, y.Type.Shape, 0)), d))}
	})
	require.NoError(b, err)
	rng := rand.New(rand.NewPCG(1, 2))
	host := map[string]array.Array{}
	for _, v := range p.In {
		a := array.New(v.Type.With(graph.F32))
		for i := range array.Data[float32](a) {
			array.Data[float32](a)[i] = float32(rng.NormFloat64() / 16)
		}
		host[v.Name] = a.As(v.Type.DType)
	}
	var steps []func()
	for _, cfg := range []gomoe.Config{{}, {Keep: gomoe.Off}} {
		job, err := gomoe.Open(b.Context(), p, cfg)
		require.NoError(b, err)
		defer job.Close()
		in := map[string]*runtime.Array{}
		for name, a := range host {
			in[name], err = job.Put(name, a)
			require.NoError(b, err)
		}
		step := func() {
			out, err := job.Run(context.Background(), in)
			require.NoError(b, err)
			job.Recycle(out...)
		}
		step() // weights are copied when they come a second time
		step()
		steps = append(steps, step)
	}
	least := []time.Duration{time.Hour, time.Hour}
	for b.Loop() {
		for i, step := range steps {
			began := time.Now()
			step()
			least[i] = min(least[i], time.Since(began))
		}
	}
	b.ReportMetric(least[0].Seconds()*1e3, "ms-kept")
	b.ReportMetric(least[1].Seconds()*1e3, "ms-copied")
	b.ReportMetric(float64(least[1])/float64(least[0]), "ratio")
}
