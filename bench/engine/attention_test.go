package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/vjp"
)

// BenchmarkAttention runs attention of one sequence of 2048 tokens, in heads of 64
// elements, forward, and forward and backward from a given cotangent of its result.
// Operations are those of the products, of half of the scores if causal.
func BenchmarkAttention(b *testing.B) {
	const tokens, width = 2048, 64
	for _, heads := range []int{1, 3, 8} {
		for _, p := range []primitives.AttentionParams{{}, {Full: true}} {
			flop := 4.0 * tokens * tokens * width * float64(heads)
			name := "full"
			if !p.Full {
				flop, name = flop/2, "causal"
			}
			for _, backward := range []bool{false, true} {
				what := "forward"
				if backward {
					what = "both"
				}
				b.Run(fmt.Sprintf("%s/%s/heads=%d", name, what, heads), func(b *testing.B) {
					program, err := graph.Trace("attention", func(t *graph.Tracer) []*graph.Value {
						var in [4]*graph.Value
						for i, name := range []string{"q", "k", "v", "dout"} {
							in[i] = t.Input(name, graph.F32, 1, tokens, heads, width)
						}
						out, _ := primitives.Attention(in[0], in[1], in[2], p)
						if !backward {
							return []*graph.Value{out}
						}
						return append(vjp.Backward([]*graph.Value{out}, in[3:], in[:3]), out)
					})
					require.NoError(b, err)
					job, err := gomoe.Open(b.Context(), program, gomoe.Config{})
					require.NoError(b, err)
					defer job.Close()
					rng := rand.New(rand.NewPCG(1, 2))
					in := map[string]*runtime.Array{}
					for _, v := range program.In {
						a := array.New(v.Type)
						for i := range array.Data[float32](a) {
							array.Data[float32](a)[i] = float32(rng.NormFloat64())
						}
						in[v.Name], err = job.Put(v.Name, a)
						require.NoError(b, err)
					}
					total := flop
					if backward {
						total *= 3.5
					}
					b.ReportAllocs()
					for b.Loop() {
						_, err := job.Run(context.Background(), in)
						require.NoError(b, err)
					}
					b.ReportMetric(total*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
		}
	}
}
