package primitives

import (
	"fmt"
	"math"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/attention"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// AttentionOp is scaled dot-product attention; see Attention.
type AttentionOp struct {
	// Scale multiplies the scores; 0 means 1/√D.
	Scale float64
	// Full lets every token attend to all tokens, instead of to those up to itself.
	Full bool
}

var _ primitive = AttentionOp{}

// CausalAttention returns the attention of each token to itself and to the tokens
// before it: the result out of Attention with zero parameters.
func CausalAttention(q, k, v *graph.Value) *graph.Value {
	graph.Helper()
	out, _ := Attention(q, k, v, AttentionOp{})
	return out
}

// Attention returns, for queries q[B,S,N,D], keys k[B,S,M,D] and values
// v[B,S,M,D] of the same float type, with M dividing N,
//
//	out[b,i,n] = Σ_j exp(s_ij - lse[b,n,i]) v[b,j,m],   lse[b,n,i] = log Σ_j exp(s_ij),
//	s_ij = Scale q[b,i,n]·k[b,j,m],   m = n / (N/M),   j ≤ i unless Full
//
// as out[B,S,N,D] and lse[B,N,S], which is f32 for bf16 and f16. Scores are never
// stored. It can be differentiated once.
func Attention(q, k, v *graph.Value, p AttentionOp) (out, lse *graph.Value) {
	r := graph.Apply(p, q, k, v)
	return r[0], r[1]
}

func (AttentionOp) Name() string { return "causal_attention" }

func (p AttentionOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 3); err != nil {
		return nil, err
	}
	q, k, v := in[0], in[1], in[2]
	if err := floating(q); err != nil {
		return nil, fmt.Errorf("q: %w", err)
	}
	if q.Rank() != 4 || k.Rank() != 4 {
		return nil, fmt.Errorf("q is %s and k is %s, want q[B,S,N,D] and k[B,S,M,D]", q, k)
	}
	b, s, n, d, m := q.Shape[0], q.Shape[1], q.Shape[2], q.Shape[3], k.Shape[2]
	if want := graph.T(q.DType, b, s, m, d); !k.Equal(want) || !v.Equal(want) {
		return nil, fmt.Errorf("k is %s and v is %s for q %s, want both %s", k, v, q, want)
	}
	if m == 0 && n > 0 || m > 0 && n%m != 0 {
		return nil, fmt.Errorf("%d heads of q for %d heads of k and v, want a multiple", n, m)
	}
	if math.IsNaN(p.Scale) || math.IsInf(p.Scale, 0) {
		return nil, fmt.Errorf("scale=%v, want a finite number, or 0 for 1/√D", p.Scale)
	}
	return []graph.Type{q, graph.T(max(q.DType, graph.F32), b, n, s)}, nil
}

func (p AttentionOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return graph.Apply(AttentionGradOp(p), e.In[0], e.In[1], e.In[2], e.Out[0], e.Out[1],
		vjp.Instantiate(ct[0], e.Out[0]), vjp.Instantiate(ct[1], e.Out[1])), nil
}

// attentionDims returns the factors: batch 0 and heads 1 may be split. Heads of q
// and of k are split over the same axes, into equal parts, so that a head of keys
// and the heads of queries that share it stay on one rank.
func attentionDims() (heads, lse []int) {
	return []int{0, sharding.Whole, 1, sharding.Whole}, []int{0, 1, sharding.Whole}
}

func (p AttentionOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	h, l := attentionDims()
	return c.Place(sharding.Factors{In: [][]int{h, h, h}, Out: [][]int{h, l}, RowWise: true})
}

func (p AttentionOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	k := inFloat(attentionKernel[float32](p), attentionKernel[float64](p))
	return e.Emit(lowering.KernelSpec{Name: "causal_attention", Out: out, In: in, Dry: k, Kernel: k})
}

// headsOf is the work of attention on one rank.
type headsOf[T float] struct {
	attention.Attention[T]
	b, n, m int
}

func newHeads[T float](p AttentionOp, q, k graph.Type) headsOf[T] {
	s, d := q.Shape[1], q.Shape[3]
	scale := p.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(max(d, 1)))
	}
	return headsOf[T]{attention.Attention[T]{S: s, D: d, Scale: T(scale), Causal: !p.Full}, q.Shape[0], q.Shape[2], k.Shape[2]}
}

// of returns head i of sequence b in x, which has `heads` of them.
func (h headsOf[T]) of(x []T, b, i, heads int) attention.Rows[T] {
	return attention.HeadOf(x, b, i, h.S, heads, h.D)
}

// grain is the least work, in scores, that is worth a goroutine: some 100 microseconds
// with vectors.
func (h headsOf[T]) grain() int { return 1 + 256*dear/max(h.D, 1) }

// attentionKernel cuts the work of all heads, laid end to end, into equal pieces. A
// piece may begin or end within a head, since rows of queries do not depend on each
// other.
func attentionKernel[T float](p AttentionOp) exec.Kernel {
	return func(a *exec.Args) error {
		q, k, v := data[T](a.In[0]), data[T](a.In[1]), data[T](a.In[2])
		out, lse := data[T](a.Out[0]), data[T](a.Out[1])
		h := newHeads[T](p, a.In[0].Type, a.In[1].Type)
		exec.Share(a, h.b*h.n*h.Work(), h.grain(), attending[T]{exec.Taking{}, a.Dry(), h, q, k, v, out, lse})
		return nil
	}
}

type attending[T float] struct {
	exec.Taking
	dry *kernel.Dry
	headsOf[T]
	q, k, v, out, lse []T
}

func (h *attending[T]) Piece(lo, hi int) {
	if lo == hi {
		return
	}
	work := h.Work()
	var at *attention.Attender[T]
	for i := lo / work; i*work < hi; i++ {
		from, to := h.RowAt(max(lo-i*work, 0)), h.RowAt(hi-i*work)
		if from >= to {
			continue
		}
		b, n := i/h.n, i%h.n
		if group := h.n / h.m; at == nil || n%group == 0 {
			if at != nil {
				at.Release()
			}
			at = h.Attend(h.dry, h.of(h.k, b, n/group, h.m), h.of(h.v, b, n/group, h.m))
		}
		at.Forward(h.of(h.q, b, n, h.n), h.of(h.out, b, n, h.n), kernel.From(h.lse, i*h.S), from, to)
	}
	if at != nil {
		at.Release()
	}
}

func (AttentionOp) Doc() graph.Doc {
	return graph.Doc{Args: "q f[B,S,N,D], k f[B,S,M,D], v f[B,S,M,D]", Results: "out f[B,S,N,D], lse f[B,N,S]",
		Formula: "out[i] = Σ exp(s_ij - lse[i]) v[j], lse[i] = log Σ exp(s_ij), s_ij = scale · q[i]·k[j], j ≤ i",
		Params:  "scale: 0 for 1/√D; full: j is any",
		Notes:   "Head n of q uses head n/(N/M) of k and v. lse is f32 for bf16 and f16. Scores are never stored."}
}
