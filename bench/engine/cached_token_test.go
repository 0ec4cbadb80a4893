package engine_test

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
)

// cachedToken is a step of decoding of a model of moe_lm's size: the token at each sequence's
// position, with caches that are donated from step to step.
func cachedToken(batch, room int, d graph.DType) (*graph.Program, map[string]int, error) {
	const vocab, width, layers, heads, ffn, experts, k = 256, 128, 4, 4, 256, 8, 2
	donated := map[string]int{}
	p, err := graph.Trace("decode", func(t *graph.Tracer) []*graph.Value {
		results := []*graph.Value{nil}
		x, at := t.Input("token", graph.I32, batch, 1), t.Input("at", graph.I32, batch)
		position := primitives.Reshape(at, batch, 1)
		lengths := primitives.AddScalar(at, 1)
		x = primitives.Embedding(t.Input("embed", graph.F32, vocab, width), x)
		for l := range layers {
			w := func(name string, shape ...int) *graph.Value {
				return t.Input(fmt.Sprintf("l%d_%s", l, name), graph.F32, shape...)
			}
			h := primitives.RMSNorm(x, w("norm1", width), 1e-5)
			head := func(name string) *graph.Value {
				return primitives.Reshape(primitives.MatMul(h, w(name, width, width)), batch, 1, heads, width/heads)
			}
			cached := func(name string, x *graph.Value) *graph.Value {
				name = fmt.Sprintf("l%d_%s", l, name)
				y := primitives.CacheUpdate(t.Input(name, d, batch, room, heads, width/heads), x, at)
				donated[name] = len(results)
				results = append(results, y)
				return y
			}
			q := primitives.RoPE(head("wq"), position, primitives.RoPEOp{})
			y, _ := primitives.Attention(q, cached("k", primitives.RoPE(head("wk"), position, primitives.RoPEOp{})), cached("v", head("wv")), primitives.AttentionParams{Lengths: lengths})
			x = primitives.Add(x, primitives.MatMul(primitives.Reshape(y, batch, 1, width), w("wo", width, width)))
			h = primitives.RMSNorm(x, w("norm2", width), 1e-5)
			weights, chosen, _ := primitives.Route(primitives.RouteOp{TopK: k, Renormalize: true}, primitives.MatMul(h, w("router", width, experts)), nil)
			r := primitives.Prepare(primitives.PrepareOp{Experts: experts}, chosen)
			rows, rowWeights := primitives.DispatchWeighted(r, h, weights)
			up := primitives.SwiGLU(primitives.GroupedMatMul(r, rows, w("gate", experts, width, ffn)), primitives.GroupedMatMul(r, rows, w("up", experts, width, ffn)))
			y = primitives.GroupedMatMul(r, up, w("down", experts, ffn, width))
			x = primitives.Add(x, primitives.Combine(r, primitives.Mul(y, primitives.BroadcastInDim(rowWeights, y.Type.Shape, 0))))
		}
		x = primitives.RMSNorm(x, t.Input("norm", graph.F32, width), 1e-5)
		results[0] = primitives.MatMul(x, t.Input("head", graph.F32, width, vocab))
		return results
	})
	return p, donated, err
}

// openCachedToken returns a job of cachedToken for one sequence, and its inputs at a position.
func openCachedToken(t testing.TB, threads, room, at int, d graph.DType) (*gomoe.Job, map[string]*runtime.Array) {
	program, donated, err := cachedToken(1, room, d)
	require.NoError(t, err)
	job, err := gomoe.Open(t.Context(), program, gomoe.Config{Donate: donated, Options: runtime.Options{Threads: threads}})
	require.NoError(t, err)
	t.Cleanup(func() { job.Close() })
	rng := rand.New(rand.NewPCG(1, 2))
	in := map[string]*runtime.Array{}
	for _, v := range program.In {
		a := array.New(v.Type)
		switch {
		case v.Name == "at":
			a.Fill(float64(at))
		case v.Type.DType == graph.F32:
			for i := range array.Data[float32](a) {
				array.Data[float32](a)[i] = float32(rng.NormFloat64()) / 8
			}
		}
		in[v.Name], err = job.Put(v.Name, a)
		require.NoError(t, err)
	}
	return job, in
}

// BenchmarkCachedToken is a token of one sequence of a model of moe_lm's size, at position 100 of
// caches with room for 128 tokens and, to see that only what is filled is read, for 4096, and
// where these are full; on one thread and on two.
func BenchmarkCachedToken(b *testing.B) {
	for _, d := range []graph.DType{graph.F32, graph.BF16, graph.F16, graph.Q8_0} {
		for _, c := range [][2]int{{128, 100}, {4096, 100}, {4096, 4000}} {
			for threads := 1; threads <= 2; threads++ {
				b.Run(fmt.Sprintf("%s/room=%d/at=%d/threads=%d", d, c[0], c[1], threads), func(b *testing.B) {
					job, in := openCachedToken(b, threads, c[0], c[1], d)
					s := stepper{job, in, make([]*runtime.Array, len(job.Plan().Out))}
					b.ReportAllocs()
					for b.Loop() {
						s.step(b)
					}
				})
			}
		}
	}
}

// After the first tokens, a token allocates nothing, whatever the element type of the caches
// that it is written to and that are read.
func TestCachedTokenAllocates(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for _, d := range []graph.DType{graph.F32, graph.BF16, graph.F16, graph.Q8_0} {
		for _, at := range []int{100, 2000} {
			t.Run(fmt.Sprintf("%s/at=%d", d, at), func(t *testing.T) {
				job, in := openCachedToken(t, 2, at+28, at, d)
				s := stepper{job, in, make([]*runtime.Array, len(job.Plan().Out))}
				step := func() { s.step(t) }
				waitingRoom()
				for range 3 {
					step()
				}
				if one, many := mallocsAlone(step), mallocs(step); one != 0 || many != 0 {
					t.Errorf("%d allocations in a token on one processor, %d on all, want none:\n%s", one, many, allocators(step))
				}
			})
		}
	}
}
