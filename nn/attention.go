package nn

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// Attention is causal self-attention with rotary position embeddings. Its parts are named q_proj, k_proj, v_proj
// and o_proj, and attn_q, attn_k, attn_v and attn_output in GGUF files.
type Attention struct {
	Heads, KVHeads int // KVHeads divides Heads
	Width          int // per head
	RoPE           RoPE
	Bias, OutBias  bool // Bias: in q_proj, k_proj and v_proj; OutBias: in o_proj
	// Norm selects the normalisation of queries and keys before rotation: "" means none, PerHead normalises each head
	// separately, and Together normalises all heads of a token at once, in which case the mesh axis tp does not split
	// them. The parts are named q_norm and k_norm.
	Norm    string
	Epsilon float64 // of Norm
	Clip    float64 // bounds the absolute values of queries, keys and values after Norm; 0 means no bound
	Window  int     // the maximum number of keys that a query attends to; 0 means all
	// Sinks adds the parameter sinks, one attention score per head for a key without a value. It takes part in the
	// softmax along with the scores of the query's keys.
	Sinks bool
}

// Values of Attention.Norm.
const (
	PerHead  = "head"
	Together = "together"
)

// Apply returns the attention of x[B,S,H] to itself and to the step's caches, as [B,S,H]. With Step.Queries set, it
// returns only the rows selected by Step.Tail.
func (a Attention) Apply(s *Scope, x *graph.Value, st *Step) *graph.Value {
	graph.Helper()
	if a.Heads < 1 || a.KVHeads < 1 || a.Width < 1 || a.Heads%a.KVHeads != 0 {
		graph.Fail("attention with %d heads, %d heads of keys and width %d, want at least 1 of each, and a number of heads of keys that divides the heads", a.Heads, a.KVHeads, a.Width)
	}
	batch, hidden := x.Dim(0), x.Dim(2)
	columns, rows, place := Columns, Rows, []string{"", "", "tp"}
	if a.Norm == Together {
		columns, rows, place = "", "", nil
	}
	project := func(x *graph.Value, name, gguf, norm string, heads int) *graph.Value {
		y := Linear{Out: heads * a.Width, Bias: a.Bias, Split: columns}.Apply(s.In(name+"_proj", gguf), x)
		if norm != "" && a.Norm == Together {
			y = RMSNorm{a.Epsilon}.Apply(s.In(norm, gguf+"_norm"), y)
		}
		y = primitives.Reshape(y, batch, x.Dim(1), heads, a.Width)
		if norm != "" && a.Norm == PerHead {
			y = RMSNorm{a.Epsilon}.Apply(s.In(norm, gguf+"_norm"), y)
		}
		if a.Clip != 0 {
			y = primitives.Clamp(primitives.Full(s.t, -a.Clip, y.Type.DType), y, primitives.Full(s.t, a.Clip, y.Type.DType))
		}
		return y
	}
	q := a.RoPE.rotate(project(st.Tail(x), "q", "attn_q", "q_norm", a.Heads), st.Tail(st.Positions(x)), st, x)
	k := a.RoPE.rotate(project(x, "k", "attn_k", "k_norm", a.KVHeads), st.Positions(x), st, x)
	v := project(x, "v", "attn_v", "", a.KVHeads)
	p := primitives.AttentionParams{Window: a.Window}
	if a.Sinks {
		p.Sinks = primitives.ConvertElementType(s.Param("sinks", "attn_sinks.weight", Init{}, []string{"tp"}, a.Heads), max(q.Type.DType, graph.F32))
	}
	y := st.attend(s, q, k, v, p, place...)
	return Linear{Out: hidden, Bias: a.OutBias, Split: rows}.Apply(s.In("o_proj", "attn_output"), primitives.Reshape(y, batch, y.Dim(1), a.Heads*a.Width))
}
