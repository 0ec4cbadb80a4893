package main

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// attentionWorkloads returns self-attention of one sequence, with and without gradients.
func attentionWorkloads() []workload {
	const seq, heads, columns = 2048, 8, 64
	var ws []workload
	for _, causal := range []bool{true, false} {
		name, share := "causal", 0.5
		if !causal {
			name, share = "full", 1
		}
		ws = append(ws, workload{
			name:  "attention/f32/" + name,
			title: fmt.Sprintf("attention forward and backward, %s, f32, T=%d, %d heads of %d", name, seq, heads, columns),
			peer:  "attention_f32", params: map[string]any{"causal": causal},
			// Two products forward, five backward.
			flop: 7 * 2 * seq * seq * heads * columns * share, tolerance: 1e-4, target: 1,
			threads: []int{2}, peers: []string{torchName, torchPlainName, jaxName},
			open: func(threads int) (*subject, error) {
				p, err := graph.Trace("attention", func(t *graph.Tracer) []*graph.Value {
					in := func(name string) *graph.Value { return t.Input(name, graph.F32, 1, seq, heads, columns) }
					q, k, v, ct := in("q"), in("k"), in("v"), in("ct")
					out, _ := primitives.Attention(q, k, v, primitives.AttentionParams{Full: !causal})
					return append([]*graph.Value{out}, vjp.Backward([]*graph.Value{out}, []*graph.Value{ct}, []*graph.Value{q, k, v})...)
				})
				if err != nil {
					return nil, err
				}
				in := map[string]array.Array{}
				for i, name := range []string{"q", "k", "v", "ct"} {
					in[name] = normal(uint64(i+1), 1, graph.F32, 1, seq, heads, columns)
				}
				return ofProgram(p, threads, in, "out", "grad_q", "grad_k", "grad_v")
			},
		})
	}
	return ws
}
