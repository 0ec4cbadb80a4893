package gomoe_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// qwen traces the gradients of a language model of four layers in the manner of Qwen3-MoE
// on a batch of some sequences of 128 tokens: its 51 weights are those of four layers with
// norms of queries and keys, the embedding, the last norm and the head. how says what
// becomes of several microbatches: "losses" adds up losses and "gradients" gradients of
// microbatches one after another, and "loop" gradients in a loop.
func qwen(t *testing.T, parts int, how string) *graph.Program {
	t.Helper()
	const layers, sequences, length, width, heads, experts, inner, vocabulary = 4, 16, 128, 128, 4, 8, 64, 256
	p, err := graph.Trace("qwen", func(tr *graph.Tracer) []*graph.Value {
		tokens := tr.Input("tokens", graph.I32, parts, sequences, length)
		targets := tr.Input("targets", graph.I32, parts, sequences, length)
		var w []*graph.Value
		in := func(name string, shape ...int) {
			w = append(w, tr.Input(name, graph.F32, shape...))
		}
		in("embed", vocabulary, width)
		for l := range layers {
			for _, x := range []struct {
				name  string
				shape []int
			}{
				{"norm1", []int{width}}, {"wq", []int{width, width}}, {"wk", []int{width, width}}, {"wv", []int{width, width}}, {"wo", []int{width, width}},
				{"qnorm", []int{width / heads}}, {"knorm", []int{width / heads}}, {"norm2", []int{width}}, {"router", []int{width, experts}},
				{"gate", []int{experts, width, inner}}, {"up", []int{experts, width, inner}}, {"down", []int{experts, inner, width}},
			} {
				in(fmt.Sprintf("l%d_%s", l, x.name), x.shape...)
			}
		}
		in("norm", width)
		in("head", width, vocabulary)
		loss := func(tokens, targets *graph.Value) *graph.Value {
			x := primitives.Embedding(w[0], tokens)
			for a := w[1 : len(w)-2]; len(a) > 0; a = a[12:] {
				h := primitives.RMSNorm(x, a[0], 1e-5)
				split := func(w *graph.Value) *graph.Value {
					return primitives.Reshape(primitives.MatMul(h, w), sequences, length, heads, width/heads)
				}
				q, k := primitives.RoPE(primitives.RMSNorm(split(a[1]), a[5], 1e-5), nil, primitives.RoPEOp{}), primitives.RoPE(primitives.RMSNorm(split(a[2]), a[6], 1e-5), nil, primitives.RoPEOp{})
				y, _ := primitives.Attention(q, k, split(a[3]), primitives.AttentionParams{})
				x = primitives.Add(x, primitives.MatMul(primitives.Reshape(y, sequences, length, width), a[4]))
				h = primitives.RMSNorm(x, a[7], 1e-5)
				weights, chosen, _ := primitives.Route(primitives.RouteOp{TopK: 2, Renormalize: true}, primitives.MatMul(h, a[8]), nil)
				r := primitives.Prepare(primitives.PrepareOp{Experts: experts, Axis: "ep"}, chosen)
				rows, rowWeights := primitives.DispatchWeighted(r, h, weights)
				o := primitives.GroupedMatMul(r, primitives.SwiGLU(primitives.GroupedMatMul(r, rows, a[9]), primitives.GroupedMatMul(r, rows, a[10])), a[11])
				x = primitives.Add(x, primitives.Combine(r, primitives.Mul(o, primitives.BroadcastInDim(rowWeights, o.Type.Shape, 0))))
			}
			logits := primitives.MatMul(primitives.RMSNorm(x, w[len(w)-2], 1e-5), w[len(w)-1])
			return primitives.MulScalar(primitives.ReduceSum(primitives.CrossEntropy(logits, targets)), 1.0/(sequences*length))
		}
		part := func(x *graph.Value, i int) *graph.Value {
			return primitives.Reshape(primitives.SliceInDim(x, 0, i, i+1), sequences, length)
		}
		if how == "loop" {
			acc := make([]*graph.Value, len(w))
			for i := range w {
				acc[i] = primitives.ZerosLike(w[i])
			}
			sums, losses := graph.Scan(graph.ScanParams{}, acc, []*graph.Value{tokens, targets}, func(acc, x []*graph.Value) (c, y []*graph.Value) {
				l := loss(x[0], x[1])
				for i, g := range vjp.Gradients(l, w...) {
					c = append(c, primitives.Add(acc[i], g))
				}
				return c, []*graph.Value{l}
			})
			return append(losses, sums...)
		}
		var total *graph.Value
		var sums []*graph.Value
		for i := range parts {
			l := loss(part(tokens, i), part(targets, i))
			if total == nil {
				total = l
			} else {
				total = primitives.Add(total, l)
			}
			if how == "losses" && i < parts-1 {
				continue
			}
			wrt := l
			if how == "losses" {
				wrt = total
			}
			for k, g := range vjp.Gradients(wrt, w...) {
				if i == 0 || how == "losses" {
					sums = append(sums, g)
				} else {
					sums[k] = primitives.Add(sums[k], g)
				}
			}
		}
		return append([]*graph.Value{total}, sums...)
	})
	require.NoError(t, err)
	return p
}

// A loop over four microbatches takes the memory of one microbatch and makes as many sums.
// With the sums of losses the arena has room for all microbatches, and with the sums of
// gradients ranks exchange the gradients of each microbatch.
func TestAccumulateMemory(t *testing.T) {
	const mib = 1 << 20
	m, err := sharding.ParseMesh("dp=2,ep=2")
	require.NoError(t, err)
	measure := func(parts int, how string) (arena float64, made int) {
		cfg := gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"tokens": sharding.Split("", "dp.ep"), "targets": sharding.Split("", "dp.ep")}}
		for _, name := range []string{"l*_gate", "l*_up", "l*_down"} {
			cfg.Place[name] = sharding.Split("ep")
		}
		plan, err := gomoe.Compile(t.Context(), qwen(t, parts, how), cfg)
		require.NoError(t, err)
		outside, inside := sums(plan)
		t.Logf("%d microbatches, %s: arena %.1f MiB, %d sums", parts, how, float64(plan.Arena)/mib, outside+inside)
		return float64(plan.Arena) / mib, outside + inside
	}
	for _, c := range []struct {
		parts     int
		how       string
		low, high float64
		sums      int
	}{
		{1, "losses", 25, 31, 51},
		{4, "losses", 90, 130, 51},
		{4, "gradients", 25, 40, 204},
		{4, "loop", 25, 35, 51},
	} {
		arena, made := measure(c.parts, c.how)
		if arena < c.low || arena > c.high || made != c.sums {
			t.Errorf("%d microbatches, %s: the arena is %.1f MiB with %d sums, want %.0f to %.0f MiB and %d", c.parts, c.how, arena, made, c.low, c.high, c.sums)
		}
	}
}
