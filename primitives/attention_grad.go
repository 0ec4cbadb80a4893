package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// attentionGradOp is the derivative of attentionOp: the cotangents of q, k and v from q, k, v,
// out, lse, the cotangents of out and lse, and the optional arguments but sinks, which lse
// contains.
type attentionGradOp attentionOp

var _ primitive = attentionGradOp{}

func (attentionGradOp) Name() string { return "attention_grad" }

func (p attentionGradOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if p.Sinks {
		return nil, fmt.Errorf("sinks=true, want none: lse contains the sinks")
	}
	at := attentionOp(p).args(7)
	if err := arity(in, at.count); err != nil {
		return nil, err
	}
	out, err := attentionOp(p).Infer(append(append([]graph.Type(nil), in[:3]...), in[7:]...))
	if err != nil {
		return nil, err
	}
	if err := floating(in[1]); err != nil {
		return nil, fmt.Errorf("k: %w", err)
	}
	for i, want := range []graph.Type{out[0], out[1], out[0], out[1]} {
		if !in[3+i].Equal(want) {
			return nil, fmt.Errorf("argument %d is %s, want %s for q, k and v of these types", 3+i, in[3+i], want)
		}
	}
	return in[:3], nil
}

// VJP differentiates the formula, with all scores in memory.
func (p attentionGradOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return differentiate(e, ct, func(in []*graph.Value) []*graph.Value {
		dq, dk, dv, _ := attentionOp(p).formula(in)
		return []*graph.Value{dq, dk, dv}
	})
}

func (p attentionGradOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	f := factorsOf(graph.Type{})
	h, l := f.heads, f.lse
	d, alone, err := placeHeads(c, func(k []int) sharding.Factors {
		return sharding.Factors{In: attentionOp(p).optional(c, [][]int{h, k, k, h, l, h, l}), Out: [][]int{h, k, k}, RowWise: len(c.In) == 7}
	})
	if err != nil {
		return d, err
	}
	for i := 1; i < 3; i++ { // each rank has the part of its heads of queries
		d.Out[i].Pending = c.Mesh.Union(d.Out[i].Pending, alone)
	}
	return d, nil
}

func (p attentionGradOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	k := inFloat(attentionGradKernel[float32](p, in, e.Eqn), attentionGradKernel[float64](p, in, e.Eqn))
	return e.Emit(lowering.KernelSpec{Op: ops.AttentionGrad, Out: out, In: in, Dry: k, Kernel: k})
}

// attentionGradKernel works on parts of heads in parallel. The contributions of parts,
// and of the heads of queries that share a head of keys, are added to that head in
// order, so that sums do not depend on which part was ready first.
func attentionGradKernel[T float](p attentionGradOp, placed []lowering.Buf, eqn *graph.Eqn) exec.Kernel {
	at := attentionOp(p).args(7)
	return func(a *exec.Args) error {
		q, k, v, out := data[T](a.In[0]), data[T](a.In[1]), data[T](a.In[2]), data[T](a.In[3])
		lse, dout, dlse := data[T](a.In[4]), data[T](a.In[5]), data[T](a.In[6])
		dq, dk, dv := data[T](a.Out[0]), data[T](a.Out[1]), data[T](a.Out[2])
		h, err := newHeads[T](attentionOp(p), a, at, placed, eqn)
		if err != nil {
			return err
		}
		if a.In[4].Type.Len() == 0 { // no queries
			clear(dk)
			clear(dv)
			return nil
		}
		each := h.group * h.Parts() // contributions to a head of keys
		w := exec.New[attentionGrad[T]](a)
		w.dry, w.headsOf, w.q, w.k, w.v, w.out, w.lse, w.dout, w.dlse, w.dq, w.dk, w.dv = a.Dry(), h, q, k, v, out, lse, dout, dlse, dq, dk, dv
		claim := 1
		// One thread computes a whole head of keys unless threads would then have no work.
		if n := max(a.Threads, 1); h.b*h.m%n == 0 || h.b*h.m >= 8*n {
			claim = each
		}
		w.sums.Start(h.b*h.m, each, claim, exec.Make[int](a, h.b*h.m))
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
	sums                                      work.OrderedSums
}

// Piece computes contributions until all are claimed.
func (h *attentionGrad[T]) Piece(int, int) { h.sums.Work(h.add) }

// add computes contributions first to last-1 to head i of keys, and adds them.
func (h *attentionGrad[T]) add(i, first, last int) {
	parts := h.Parts()
	b, g := i/h.m, i%h.m
	x := h.sequence(b)
	at := x.Attend(h.dry, of(h.k, b, g, h.r, h.m, h.D), of(h.v, b, g, h.r, h.m, h.V))
	defer at.Release()
	dk, dv := of(h.dk, b, g, h.r, h.m, h.D), of(h.dv, b, g, h.r, h.m, h.V)
	for turn := first; turn < last; turn++ {
		n := g*h.group + turn/parts - h.off
		if h.dry != nil {
			n = 0
		}
		elsewhere := n < 0 || n >= h.n // another rank has this head of queries
		if !elsewhere {
			rows := (b*h.n + n) * h.s
			from, to := h.Part(turn % parts)
			at.Backward(of(h.q, b, n, h.s, h.n, h.D), of(h.out, b, n, h.s, h.n, h.V), kernel.From(h.lse, rows),
				of(h.dout, b, n, h.s, h.n, h.V), kernel.From(h.dlse, rows), of(h.dq, b, n, h.s, h.n, h.D), h.biasOf(b, n), from, to)
		}
		if !h.sums.Wait(i, turn) {
			return
		}
		clean := x.R // keys from here on get nothing
		if elsewhere {
			clean = 0
		} else {
			at.AddTo(dk, dv, turn == 0)
		}
		for j := clean; turn == 0 && h.dry == nil && j < h.r; j++ {
			clear(dk.X[j*dk.Stride:][:h.D])
			clear(dv.X[j*dv.Stride:][:h.V])
		}
		h.sums.Done(i)
	}
}

func (attentionGradOp) Doc() graph.Doc {
	return graph.Doc{Args: "q f[B,S,N,D], k f[B,R,M,D], v f[B,R,M,V], out f[B,S,N,V], lse f[B,N,S], dout f[B,S,N,V], dlse f[B,N,S], and where their parameters say so lengths i32[B], start i32[B], bias f[B or 1,N or 1,S,R]",
		Results: "dq f[B,S,N,D], dk f[B,R,M,D], dv f[B,R,M,V]",
		Formula: "dv[j] = Σ p_ij dout[i], ds_ij = scale · p_ij (dout[i]·v[j] - dout[i]·out[i] + dlse[i]), dq[i] = Σ ds_ij k[j], dk[j] = Σ ds_ij q[i], p_ij = exp(s_ij - lse[i])",
		Params:  "scale: 0 for 1/√D; full: j is any; window: how many keys up to its position a query attends to, 0 for all; soft_cap: c, s becomes c·tanh(s/c), 0 for none; lengths: keys of each sequence; start: position of each sequence's first query; sinks: never true, as lse contains the sinks; bias: is added to scores",
		Notes:   "With soft_cap, ds has the factor 1 - (s/c)². Scores are computed again and never stored; the derivative of this operation stores them. Query heads that share a head of k and v are summed in order."}
}
