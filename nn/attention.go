package nn

import (
	"github.com/gomoe/gomoe/graph"
	pr "github.com/gomoe/gomoe/primitives"
)

// Attention is causal self-attention with rotary positions. Its parts are q_proj, k_proj, v_proj and o_proj,
// in GGUF files attn_q, attn_k, attn_v and attn_output.
type Attention struct {
	Heads, KVHeads int // KVHeads divides Heads
	Width          int // of a head
	RoPE           RoPE
	Bias, OutBias  bool // of the first three parts, and of the last
	// Norm normalises queries and keys before they are rotated: "" not at all, PerHead every head by itself,
	// Together all heads of a token together, so that the mesh axis tp does not split them. The parts are q_norm
	// and k_norm.
	Norm    string
	Epsilon float64 // of Norm
	Clip    float64 // the largest absolute value of queries, keys and values, after Norm; 0 means none
	Window  int     // how many keys a query attends to at most; 0 means all
	// Sinks has a parameter sinks: a score of each head for a key without a value, beside those of a query's keys.
	Sinks bool
}

// The values of Attention.Norm.
const (
	PerHead  = "head"
	Together = "together"
)

// CachePlace has the mesh axes that split the caches of keys and values: those of the heads.
func (a Attention) CachePlace() []string {
	if a.Norm == Together {
		return nil
	}
	return []string{"", "", "tp"}
}

// Apply returns the attention of x[B,S,H] to itself and to what the step's caches hold, as [B,S,H], or of the tokens of
// Step.Tail.
func (a Attention) Apply(s *Scope, x *graph.Value, st *Step) *graph.Value {
	graph.Helper()
	batch, hidden := x.Dim(0), x.Dim(2)
	columns, rows := Columns, Rows
	if a.Norm == Together {
		columns, rows = "", ""
	}
	project := func(x *graph.Value, name, gguf, norm string, heads int) *graph.Value {
		y := Linear{Out: heads * a.Width, Bias: a.Bias, Split: columns}.Apply(s.In(name+"_proj", gguf), x)
		if norm != "" && a.Norm == Together {
			y = RMSNorm{a.Epsilon}.Apply(s.In(norm, gguf+"_norm"), y)
		}
		y = pr.Reshape(y, batch, x.Dim(1), heads, a.Width)
		if norm != "" && a.Norm == PerHead {
			y = RMSNorm{a.Epsilon}.Apply(s.In(norm, gguf+"_norm"), y)
		}
		if a.Clip != 0 {
			y = pr.Clamp(pr.Full(s.t, -a.Clip, y.Type.DType), y, pr.Full(s.t, a.Clip, y.Type.DType))
		}
		return y
	}
	q := a.RoPE.rotate(project(st.Tail(x), "q", "attn_q", "q_norm", a.Heads), st.Tail(st.Positions(x)), st, x)
	k := a.RoPE.rotate(project(x, "k", "attn_k", "k_norm", a.KVHeads), st.Positions(x), st, x)
	v := project(x, "v", "attn_v", "", a.KVHeads)
	p := pr.AttentionParams{Window: a.Window}
	if a.Sinks {
		p.Sinks = pr.ConvertElementType(s.Param("sinks", "attn_sinks.weight", Init{}, []string{"tp"}, a.Heads), max(q.Type.DType, graph.F32))
	}
	y := st.attend(s, q, k, v, p)
	return Linear{Out: hidden, Bias: a.OutBias, Split: rows}.Apply(s.In("o_proj", "attn_output"), pr.Reshape(y, batch, y.Dim(1), a.Heads*a.Width))
}
