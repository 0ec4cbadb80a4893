package nn

import (
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// MLA is DeepSeek's multi-head latent attention. Keys and values of a token are linear functions of a short vector,
// the latent, except for one key with rotary positions that all heads share. The cache holds only the latent and
// that key. Keys and values are never materialised: queries are projected into the latent space, attention sums
// latents, and each head projects its sum to values at the end. So all heads share one key of Latent+Rotary
// numbers.
//
// The parts are q_proj or, if Query is set, q_a_proj, q_a_layernorm and q_b_proj; kv_a_proj_with_mqa,
// kv_a_layernorm, kv_b_proj and o_proj. Source: DeepSeek-AI, "DeepSeek-V2" (2024).
type MLA struct {
	Heads                int
	Plain, Rotary, Value int // per head: columns of the query without and with rotary positions, and of the value
	Query, Latent        int // sizes of the latents for queries and for keys and values; Query 0 computes queries from x directly
	RoPE                 RoPE
	Scale                float64 // of the scores; 0 means 1/√(Plain+Rotary)
	Bias                 bool    // in o_proj and in the projections reading x, except q_proj
	Epsilon              float64 // of the norms
	// Split declares k_b_proj [Heads,Latent,Plain] and v_b_proj [Heads,Value,Latent] in place of kv_b_proj.
	Split bool
}

// Apply returns the attention of x[B,S,H] to itself and to the step's cache, as [B,S,H]. With Step.Queries set, it
// returns only the rows selected by Step.Tail.
func (a MLA) Apply(s *Scope, x *graph.Value, st *Step) *graph.Value {
	graph.Helper()
	batch, tokens, hidden := x.Dim(0), x.Dim(1), x.Dim(2)
	norm, width := RMSNorm{a.Epsilon}, a.Plain+a.Rotary

	q := st.Tail(x)
	queries := q.Dim(1)
	if a.Query == 0 {
		q = Linear{Out: a.Heads * width, Split: Columns}.Apply(s.In("q_proj", "attn_q"), q)
	} else {
		q = Linear{Out: a.Query, Bias: a.Bias}.Apply(s.In("q_a_proj", "attn_q_a"), q)
		q = norm.Apply(s.In("q_a_layernorm", "attn_q_a_norm"), q)
		q = Linear{Out: a.Heads * width, Split: Columns}.Apply(s.In("q_b_proj", "attn_q_b"), q)
	}
	q = primitives.Reshape(q, batch, queries, a.Heads, width)
	kv := Linear{Out: a.Latent + a.Rotary, Bias: a.Bias}.Apply(s.In("kv_a_proj_with_mqa", "attn_kv_a_mqa"), x)
	latent := norm.Apply(s.In("kv_a_layernorm", "attn_kv_a_norm"), primitives.SliceInDim(kv, 2, 0, a.Latent))
	key := a.RoPE.rotate(primitives.Reshape(primitives.SliceInDim(kv, 2, a.Latent, a.Latent+a.Rotary), batch, tokens, 1, a.Rotary), st.Positions(x), st, x)
	keys := primitives.Concatenate(3, primitives.Reshape(latent, batch, tokens, 1, a.Latent), key)

	toKey, toValue := a.matrices(s, x.Type.DType)
	q = primitives.Concatenate(3, perHead(primitives.SliceInDim(q, 3, 0, a.Plain), toKey, 1), a.RoPE.rotate(primitives.SliceInDim(q, 3, a.Plain, width), st.Tail(st.Positions(x)), st, x))
	p := primitives.AttentionParams{Scale: a.Scale}
	if p.Scale == 0 {
		p.Scale = 1 / math.Sqrt(float64(width))
	}
	y := perHead(primitives.SliceInDim(st.attend(s, q, keys, keys, p), 3, 0, a.Latent), toValue, 2)
	return Linear{Out: hidden, Bias: a.Bias, Split: Rows}.Apply(s.In("o_proj", "attn_output"), primitives.Reshape(y, batch, queries, a.Heads*a.Value))
}

// matrices returns the projections of queries into the latent space, [Heads,Plain,Latent], and of latents to
// values, [Heads,Value,Latent].
func (a MLA) matrices(s *Scope, d graph.DType) (toKey, toValue *graph.Value) {
	init, place := Init{Std: 1 / math.Sqrt(float64(a.Latent))}, []string{"tp"}
	if a.Split {
		k := s.matrix("k_b_proj.weight", "attn_k_b.weight", init, place, a.Heads, a.Latent, a.Plain)
		v := s.matrix("v_b_proj.weight", "attn_v_b.weight", init, place, a.Heads, a.Value, a.Latent)
		return primitives.Transpose(k.numbers(d), 0, 2, 1), v.numbers(d)
	}
	w := s.In("kv_b_proj", "attn_kv_b").matrix("weight", "weight", init, place, a.Heads*(a.Plain+a.Value), a.Latent).numbers(d)
	w = primitives.Reshape(w, a.Heads, a.Plain+a.Value, a.Latent)
	return primitives.SliceInDim(w, 1, 0, a.Plain), primitives.SliceInDim(w, 1, a.Plain, a.Plain+a.Value)
}

// perHead multiplies x[B,S,N,..] by one matrix per head, w[N,..,..], summing over dimension d of w.
func perHead(x, w *graph.Value, d int) *graph.Value {
	return primitives.Transpose(primitives.DotGeneral(x, w, []int{3}, []int{d}, []int{2}, []int{0}), 1, 2, 0, 3)
}
