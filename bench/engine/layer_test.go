package engine_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// The MoE layer that the benchmarks share: T tokens, D hidden, E experts of
// width F, K per token, SwiGLU.
const (
	benchTokens, benchHidden, benchExperts, benchTopK, benchFFN = 1024, 512, 8, 2, 1024
)

// moeLayer traces the layer with a router; its first result is half the sum of
// squares of the output.
func moeLayer() (*graph.Program, error) { return moeLayerOf(benchExperts) }

// moeLayerOf is moeLayer with another number of experts.
func moeLayerOf(experts int) (*graph.Program, error) {
	return graph.Trace("moe_layer", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.F32, benchTokens, benchHidden)
		wr := t.Input("router", graph.F32, benchHidden, experts)
		gate := t.Input("gate", graph.F32, experts, benchHidden, benchFFN)
		up := t.Input("up", graph.F32, experts, benchHidden, benchFFN)
		down := t.Input("down", graph.F32, experts, benchFFN, benchHidden)
		weights, chosen, _ := primitives.Route(primitives.RouteOp{TopK: benchTopK, Renormalize: true}, primitives.MatMul(x, wr), nil)
		r := primitives.Prepare(primitives.PrepareOp{Experts: experts}, chosen)
		rows, rw := primitives.DispatchWeighted(r, x, weights)
		y := primitives.GroupedMatMul(r, primitives.SwiGLU(primitives.GroupedMatMul(r, rows, gate), primitives.GroupedMatMul(r, rows, up)), down)
		out := primitives.Combine(r, primitives.Mul(y, primitives.BroadcastInDim(rw, y.Type.Shape, 0)))
		return []*graph.Value{primitives.MulScalar(primitives.ReduceSum(primitives.Square(out)), 0.5), out}
	})
}

func BenchmarkTrace(b *testing.B) {
	for b.Loop() {
		_, err := moeLayer()
		require.NoError(b, err)
	}
}

func BenchmarkGrad(b *testing.B) {
	p, err := moeLayer()
	require.NoError(b, err)
	for b.Loop() {
		_, err := vjp.Grad(p)
		require.NoError(b, err)
	}
}

func BenchmarkLower(b *testing.B) {
	p, err := moeLayer()
	require.NoError(b, err)
	g, err := vjp.Grad(p)
	require.NoError(b, err)
	for b.Loop() {
		_, err := gomoe.Compile(b.Context(), g, onMesh(b, "dp=2,ep=2"))
		require.NoError(b, err)
	}
}

func onMesh(b *testing.B, mesh string) gomoe.Config {
	m, err := sharding.ParseMesh(mesh)
	require.NoError(b, err)
	cfg := gomoe.Config{Mesh: m}
	if m.Ranks() > 1 {
		tokens, experts := sharding.Split("ep"), sharding.Split("ep")
		if m.Size("dp") > 1 {
			tokens = sharding.Split("dp.ep")
		}
		cfg.Place = map[string]sharding.Spec{"x": tokens, "gate": experts, "up": experts, "down": experts}
	}
	return cfg
}

// BenchmarkMoELayer runs the layer forward, and forward and backward, on one
// rank, on four, and on four without data-parallel sums, and both ways on four with Config.Exact.
func BenchmarkMoELayer(b *testing.B) {
	forward, err := moeLayer()
	require.NoError(b, err)
	both, err := vjp.Grad(forward)
	require.NoError(b, err)
	flop := 2.0 * benchTokens * benchTopK * 3 * benchHidden * benchFFN
	for _, c := range []struct {
		name, mesh string
		p          *graph.Program
		flop       float64
		exact      int
	}{
		{"forward/1rank", "", forward, flop, 0},
		{"forward/4ranks", "dp=2,ep=2", forward, flop, 0},
		{"forward/ep4", "ep=4", forward, flop, 0},
		{"backward/1rank", "", both, 3 * flop, 0},
		{"backward/4ranks", "dp=2,ep=2", both, 3 * flop, 0},
		{"backward/ep4", "ep=4", both, 3 * flop, 0},
		{"backward/4ranks/exact", "dp=2,ep=2", both, 3 * flop, gomoe.ExactBlocks},
		{"backward/ep4/exact", "ep=4", both, 3 * flop, gomoe.ExactBlocks},
	} {
		b.Run(c.name, func(b *testing.B) {
			cfg := onMesh(b, c.mesh)
			cfg.Exact = c.exact
			job, err := gomoe.Open(b.Context(), c.p, cfg)
			require.NoError(b, err)
			defer job.Close()
			rng := rand.New(rand.NewPCG(1, 2))
			in := map[string]*runtime.Array{}
			for _, v := range c.p.In {
				a := array.New(v.Type)
				for i := range array.Data[float32](a) {
					array.Data[float32](a)[i] = float32(rng.NormFloat64() / 16)
				}
				in[v.Name], err = job.Put(v.Name, a)
				require.NoError(b, err)
			}
			b.ReportAllocs()
			for b.Loop() {
				out, err := job.Run(context.Background(), in)
				require.NoError(b, err)
				job.Recycle(out...)
			}
			b.ReportMetric(c.flop*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
