package primitives

import (
	"errors"
	"fmt"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// AttentionGradOp is the derivative of AttentionOp: the cotangents of q,
// k and v from q, k, v, out, lse and the cotangents of out and lse.
type AttentionGradOp struct {
	Scale float64
	Full  bool
}

var _ primitive = AttentionGradOp{}

func (AttentionGradOp) Name() string { return "causal_attention_grad" }

func (p AttentionGradOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 7); err != nil {
		return nil, err
	}
	out, err := AttentionOp(p).Infer(in[:3])
	if err != nil {
		return nil, err
	}
	for i, want := range []graph.Type{out[0], out[1], out[0], out[1]} {
		if !in[3+i].Equal(want) {
			return nil, fmt.Errorf("argument %d is %s, want %s for q, k and v of these types", 3+i, in[3+i], want)
		}
	}
	return in[:3], nil
}

func (AttentionGradOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) {
	return nil, errors.New("the second derivative of causal_attention is not available; write attention with dot_general and softmax")
}

func (p AttentionGradOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	h, l := attentionDims()
	return c.Place(sharding.Factors{In: [][]int{h, h, h, h, l, h, l}, Out: [][]int{h, h, h}, RowWise: true})
}

func (p AttentionGradOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	k := inFloat(attentionGradKernel[float32](p), attentionGradKernel[float64](p))
	return e.Emit(lowering.KernelSpec{Name: "causal_attention_grad", Out: out, In: in, Dry: k, Kernel: k})
}

// attentionGradKernel works on parts of heads in parallel. The contributions of parts,
// and of the heads of queries that share a head of keys, are added to that head in
// order, so that sums do not depend on which part was ready first.
func attentionGradKernel[T float](p AttentionGradOp) exec.Kernel {
	return func(a *exec.Args) error {
		q, k, v, out := data[T](a.In[0]), data[T](a.In[1]), data[T](a.In[2]), data[T](a.In[3])
		lse, dout, dlse := data[T](a.In[4]), data[T](a.In[5]), data[T](a.In[6])
		dq, dk, dv := data[T](a.Out[0]), data[T](a.Out[1]), data[T](a.Out[2])
		h := newHeads[T](AttentionOp(p), a.In[0].Type, a.In[1].Type)
		if a.Out[0].Type.Len() == 0 {
			clear(dk)
			clear(dv)
			return nil
		}
		group, parts := h.n/h.m, h.Parts()
		each := group * parts // contributions to a head of keys
		w := exec.New[attentionGrad[T]](a)
		w.dry, w.headsOf, w.q, w.k, w.v, w.out, w.lse, w.dout, w.dlse, w.dq, w.dk, w.dv = a.Dry(), h, q, k, v, out, lse, dout, dlse, dq, dk, dv
		w.turns.start(h.b*h.m, each, exec.Make[int](a, h.b*h.m))
		// One thread works on a whole head of keys where no thread is then without work.
		if n := max(a.Threads, 1); h.b*h.m%n == 0 || h.b*h.m >= 8*n {
			w.turns.take = each
		}
		workers := min(max(a.Threads, 1), max(2*h.b*h.n*h.Work()/h.grain(), 1))
		a.Share(workers, 1, w)
		return nil
	}
}

type attentionGrad[T float] struct {
	exec.Taking
	dry *kernel.Dry
	headsOf[T]
	q, k, v, out, lse, dout, dlse, dq, dk, dv []T
	turns                                     turns
}

// Piece takes turns until there are none.
func (h *attentionGrad[T]) Piece(int, int) { h.turns.work(h.add) }

// add computes contributions first to last-1 to head i of keys, and adds them.
func (h *attentionGrad[T]) add(i, first, last int) {
	group, parts := h.n/h.m, h.Parts()
	b, g := i/h.m, i%h.m
	at := h.Attend(h.dry, h.of(h.k, b, g, h.m), h.of(h.v, b, g, h.m))
	defer at.Release()
	for turn := first; turn < last; turn++ {
		n := g*group + turn/parts
		rows := (b*h.n + n) * h.S
		from, to := h.Part(turn % parts)
		at.Backward(h.of(h.q, b, n, h.n), h.of(h.out, b, n, h.n), kernel.From(h.lse, rows),
			h.of(h.dout, b, n, h.n), kernel.From(h.dlse, rows), h.of(h.dq, b, n, h.n), from, to)
		if !h.turns.wait(i, turn) {
			return
		}
		at.AddTo(h.of(h.dk, b, g, h.m), h.of(h.dv, b, g, h.m), turn == 0)
		h.turns.done(i)
	}
}

func (AttentionGradOp) Doc() graph.Doc {
	return graph.Doc{Args: "q f[B,S,N,D], k f[B,S,M,D], v f[B,S,M,D], out f[B,S,N,D], lse f[B,N,S], dout f[B,S,N,D], dlse f[B,N,S]",
		Results: "dq f[B,S,N,D], dk f[B,S,M,D], dv f[B,S,M,D]",
		Formula: "dv[j] = Σ p_ij dout[i], ds_ij = scale · p_ij (dout[i]·v[j] - dout[i]·out[i] + dlse[i]), dq[i] = Σ ds_ij k[j], dk[j] = Σ ds_ij q[i], p_ij = exp(s_ij - lse[i])",
		Params:  "scale: 0 for 1/√D; full: j is any",
		Notes:   "Has no derivative. Scores are computed again and never stored. Query heads that share a head of k and v are summed in order."}
}
