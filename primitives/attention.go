package primitives

import (
	"errors"
	"fmt"
	"math"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// attentionOp is scaled dot-product attention; see Attention.
type attentionOp struct {
	// Scale multiplies the scores; 0 means 1/√D.
	Scale float64
	// Full lets every query attend to all keys, instead of to those up to its position.
	Full bool
	// Window, if not 0, is the number of keys up to its position that a query attends to. It
	// excludes Full.
	Window int
	// SoftCap, if not 0, replaces a score s by SoftCap·tanh(s/SoftCap).
	SoftCap float64
	// Lengths, Start, Sinks and Bias are set if these arguments follow q, k and v, in this order.
	Lengths, Start, Sinks, Bias bool
}

var _ primitive = attentionOp{}

// AttentionParams are the parameters of Attention and its optional arguments. The zero value is
// causal attention.
type AttentionParams struct {
	// Scale multiplies the scores; 0 means 1/√D.
	Scale float64
	// Full lets every query attend to all keys, instead of to those up to its position.
	Full bool
	// Window, if not 0, is the number of keys up to its position that a query attends to. It
	// excludes Full.
	Window int
	// SoftCap, if not 0, replaces a score s by SoftCap·tanh(s/SoftCap), before the bias.
	SoftCap float64
	// Lengths i32[B] are the numbers of keys of the sequences; nil means R. Keys and values after
	// them are never read.
	Lengths *graph.Value
	// Start i32[B] are the positions of each sequence's first query; nil means that the last
	// query is at the last key.
	Start *graph.Value
	// Sinks, [N] in q's type, or f32 for bf16 and f16, are scores without a value: exp(Sinks[n])
	// is added to the sums of head n's powers. nil means none.
	Sinks *graph.Value
	// Bias, [B or 1, N or 1, S, R] in q's type, or f32 for bf16 and f16, is added to the scores.
	// An element of -Inf hides a key. nil means none.
	Bias *graph.Value
}

// Attention returns, for queries q[B,S,N,D], keys k[B,R,M,D] and values v[B,R,M,V], with M
// dividing N,
//
//	out[b,i,n] = Σ_j exp(s_ij - lse[b,n,i]) v[b,j,m],   lse[b,n,i] = log Σ_j exp(s_ij),
//	s_ij = Scale q[b,i,n]·k[b,j,m],   m = n / (N/M)
//
// as out[B,S,N,V] and lse[B,N,S], f32 for bf16 and f16. Query i of a sequence is at
// position R-S+i, or Lengths-S+i, or Start+i, and attends to the keys j up to it, unless AttentionParams
// states otherwise. A query without keys has out 0 and lse -Inf. k and v have q's float type. If q
// is not f64, both may have another type, f32, bf16, f16 or q8_0, for caches. Scores are never
// stored. A row of out does not depend on the other queries, not even in its last bit.
func Attention(q, k, v *graph.Value, p AttentionParams) (out, lse *graph.Value) {
	graph.Helper()
	op, args := attentionOp{Scale: p.Scale, Full: p.Full, Window: p.Window, SoftCap: p.SoftCap}, []*graph.Value{q, k, v}
	for _, x := range []struct {
		value *graph.Value
		given *bool
	}{{p.Lengths, &op.Lengths}, {p.Start, &op.Start}, {p.Sinks, &op.Sinks}, {p.Bias, &op.Bias}} {
		if *x.given = x.value != nil; *x.given {
			args = append(args, x.value)
		}
	}
	r := graph.Apply(op, args...)
	return r[0], r[1]
}

func (attentionOp) Name() string { return "attention" }

// Blocks: keys and values may be q8_0.
func (attentionOp) Blocks() {}

// attentionArgs are the indices of attention's optional arguments, 0 for missing ones, and the
// number of all arguments.
type attentionArgs struct{ lengths, start, sinks, bias, count int }

// args returns the indices of the arguments following the first `first`.
func (p attentionOp) args(first int) attentionArgs {
	at := attentionArgs{count: first}
	for _, x := range []struct {
		given bool
		index *int
	}{{p.Lengths, &at.lengths}, {p.Start, &at.start}, {p.Sinks, &at.sinks}, {p.Bias, &at.bias}} {
		if x.given {
			*x.index = at.count
			at.count++
		}
	}
	return at
}

func (p attentionOp) Infer(in []graph.Type) ([]graph.Type, error) {
	at := p.args(3)
	if err := arity(in, at.count); err != nil {
		return nil, err
	}
	q, k, v := in[0], in[1], in[2]
	if err := floating(q); err != nil {
		return nil, fmt.Errorf("q: %w", err)
	}
	if q.Rank() != 4 || k.Rank() != 4 || v.Rank() != 4 {
		return nil, fmt.Errorf("q is %s, k is %s and v is %s, want q[B,S,N,D], k[B,R,M,D] and v[B,R,M,V]", q, k, v)
	}
	b, s, n, d, r, m := q.Shape[0], q.Shape[1], q.Shape[2], q.Shape[3], k.Shape[1], k.Shape[2]
	if want := graph.T(k.DType, b, r, m, d); !k.Equal(want) {
		return nil, fmt.Errorf("k is %s for q %s, want %s", k, q, want)
	}
	if want := graph.T(k.DType, b, r, m, v.Shape[3]); !v.Equal(want) {
		return nil, fmt.Errorf("v is %s for k %s, want %s or another width", v, k, want)
	}
	if stored := k.DType == graph.F32 || k.DType == graph.BF16 || k.DType == graph.F16 || k.DType == graph.Q8_0; k.DType != q.DType && (q.DType == graph.F64 || !stored) {
		return nil, fmt.Errorf("k and v are %s for q %s; want q's type or, if it is not f64, f32, bf16, f16 or q8_0", k.DType, q.DType)
	}
	if m == 0 && n > 0 || m > 0 && n%m != 0 {
		return nil, fmt.Errorf("%d heads of q for %d heads of k and v, want a multiple", n, m)
	}
	wide := max(q.DType, graph.F32)
	for _, x := range []struct {
		name string
		at   int
		want graph.Type
	}{{"lengths", at.lengths, graph.T(graph.I32, b)}, {"start", at.start, graph.T(graph.I32, b)}} {
		if x.at > 0 && !in[x.at].Equal(x.want) {
			return nil, fmt.Errorf("%s are %s, want %s", x.name, in[x.at], x.want)
		}
	}
	if at.sinks > 0 && !in[at.sinks].Equal(graph.T(wide, n)) && !in[at.sinks].Equal(graph.T(q.DType, n)) {
		return nil, fmt.Errorf("sinks are %s, want %s", in[at.sinks], graph.T(wide, n))
	}
	if at.bias > 0 {
		x := in[at.bias]
		one := func(d, n int) bool { return x.Shape[d] == 1 || x.Shape[d] == n }
		if x.DType != q.DType && x.DType != wide || x.Rank() != 4 || !one(0, b) || !one(1, n) || x.Shape[2] != s || x.Shape[3] != r {
			return nil, fmt.Errorf("bias is %s, want %s with B=%d or 1, N=%d or 1", x, graph.T(wide, b, n, s, r), b, n)
		}
	}
	return []graph.Type{graph.T(q.DType, b, s, n, v.Shape[3]), graph.T(wide, b, n, s)}, p.check()
}

func (p attentionOp) check() error {
	switch {
	case math.IsNaN(p.Scale) || math.IsInf(p.Scale, 0):
		return fmt.Errorf("scale=%v, want a finite number, or 0 for 1/√D", p.Scale)
	case !(p.SoftCap >= 0) || math.IsInf(p.SoftCap, 0):
		return fmt.Errorf("soft_cap=%v, want a positive finite number, or 0 for none", p.SoftCap)
	case p.Window < 0:
		return fmt.Errorf("window=%d, want a number of keys, or 0 for all", p.Window)
	case p.Window > 0 && p.Full:
		return errors.New("window and full: a window ends at the query's position; mask keys with a bias instead")
	}
	return nil
}

func (p attentionOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	if d := e.In[1].Type.DType; d.IsBlock() {
		return nil, fmt.Errorf("keys and values of %s have no derivative; convert them with convert_element_type", d)
	}
	at := p.args(3)
	dout, dlse := vjp.Instantiate(ct[0], e.Out[0]), vjp.Instantiate(ct[1], e.Out[1])
	in := []*graph.Value{e.In[0], e.In[1], e.In[2], e.Out[0], e.Out[1], dout, dlse}
	for _, i := range []int{at.lengths, at.start, at.bias} {
		if i > 0 {
			in = append(in, e.In[i])
		}
	}
	g := p.withoutSinks()
	grads := append(graph.Apply(attentionGradOp(g), in...), make([]*graph.Value, len(e.In)-3)...)
	if at.sinks > 0 {
		grads[at.sinks] = sinksGrad(e.In[at.sinks], e.Out[0], e.Out[1], dout, dlse)
	}
	if at.bias > 0 {
		grads[at.bias] = g.biasGrad(in)
	}
	return grads, nil
}

// withoutSinks returns the parameters of the gradient. It needs no sinks, because lse includes them.
func (p attentionOp) withoutSinks() attentionOp {
	p.Sinks = false
	return p
}

// attentionFactors are the factors of attention's arguments: batch 0 and heads 1 may be split.
// Query heads and key heads are split evenly over the same axes, keeping a key head and the query
// heads sharing it on one rank. If there are too few key heads, every rank has all of them.
type attentionFactors struct{ heads, lse, batch, sinks, bias []int }

// placeHeads places attention or a recurrence, or its derivative. Heads of argument many share heads of argument few.
// factors returns the factors, given the factors of the latter. alone are the axes splitting the many heads only.
func placeHeads(c *sharding.Context, many, few int, factors func(keys []int) sharding.Factors) (d sharding.Decision, alone []string, err error) {
	n, m := c.Type(many).Shape[2], c.Type(few).Shape[2]
	if d, err := c.Place(factors([]int{0, sharding.Whole, sharding.Whole, sharding.Whole})); err == nil && n != m {
		if axes := d.In[many].At(2); m%c.Mesh.Parts(axes) != 0 {
			return d, axes, nil
		}
	}
	d, err = c.Place(factors(factorsOf(graph.Type{}).heads))
	return d, nil, err
}

// factorsOf returns the factors. bias is the type of the bias, if there is one.
func factorsOf(bias graph.Type) attentionFactors {
	f := attentionFactors{heads: []int{0, sharding.Whole, 1, sharding.Whole}, lse: []int{0, 1, sharding.Whole}, batch: []int{0}, sinks: []int{1}}
	f.bias = splitWhere(4, func(d int) bool { return d < 2 && bias.Rank() == 4 && bias.Shape[d] != 1 })
	return f
}

// optional adds the factors of optional arguments.
func (p attentionOp) optional(c *sharding.Context, in [][]int) [][]int {
	at := p.args(len(in))
	f := factorsOf(graph.Type{})
	if at.bias > 0 {
		f = factorsOf(c.Type(at.bias))
	}
	for _, x := range []struct {
		at   int
		dims []int
	}{{at.lengths, f.batch}, {at.start, f.batch}, {at.sinks, f.sinks}, {at.bias, f.bias}} {
		if x.at > 0 {
			in = append(in, x.dims)
		}
	}
	return in
}

func (p attentionOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	f := factorsOf(graph.Type{})
	d, _, err := placeHeads(c, 0, 1, func(keys []int) sharding.Factors {
		return sharding.Factors{In: p.optional(c, [][]int{f.heads, keys, keys}), Out: [][]int{f.heads, f.lse}, RowWise: len(c.In) == 3}
	})
	return d, err
}

func (p attentionOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	k := attentionKernel[float32](p, in, e.Eqn)
	if out[1].Type.DType == graph.F64 {
		k = attentionKernel[float64](p, in, e.Eqn)
	}
	return e.Emit(lowering.KernelSpec{Op: ops.Attention, Out: out, In: in, Dry: k, Kernel: k})
}

func (attentionOp) Doc() graph.Doc {
	return graph.Doc{Args: "q f[B,S,N,D], k f[B,R,M,D], v f[B,R,M,V], and where their parameters say so lengths i32[B], start i32[B], sinks f32[N], bias f[B or 1,N or 1,S,R]", Results: "out f[B,S,N,V], lse f[B,N,S]",
		Formula: "out[i] = Σ exp(s_ij - lse[i]) v[j], lse[i] = log Σ exp(s_ij), s_ij = scale · q[i]·k[j], j ≤ position of query i",
		Params:  "scale: 0 for 1/√D; full: j is any; window: how many keys up to its position a query attends to, 0 for all; soft_cap: c, s becomes c·tanh(s/c), 0 for none; lengths: keys of each sequence; start: position of each sequence's first query, without which the last query is at the last key; sinks: scores without a value; bias: is added to scores",
		Notes:   "Head n of q uses head n/(N/M) of k and v. lse is f32 for bf16 and f16. Scores are never stored. Keys behind lengths are never read. A query without keys has out 0. k and v may be f32, bf16, f16 or q8_0 beside a q of another type that is not f64."}
}

// attentionGradOp is the derivative of attentionOp. It computes the cotangents of q, k and v from
// q, k, v, out, lse, the cotangents of out and lse, and the optional arguments except sinks,
// which lse includes.
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
	d, alone, err := placeHeads(c, 0, 1, func(k []int) sharding.Factors {
		return sharding.Factors{In: attentionOp(p).optional(c, [][]int{h, k, k, h, l, h, l}), Out: [][]int{h, k, k}, RowWise: len(c.In) == 7}
	})
	if err != nil {
		return d, err
	}
	for i := 1; i < 3; i++ { // each rank has the contributions of its query heads
		d.Out[i].Pending = c.Mesh.Union(d.Out[i].Pending, alone)
	}
	return d, nil
}

func (p attentionGradOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	k := inFloat(attentionGradKernel[float32](p, in, e.Eqn), attentionGradKernel[float64](p, in, e.Eqn))
	return e.Emit(lowering.KernelSpec{Op: ops.AttentionGrad, Out: out, In: in, Dry: k, Kernel: k})
}

// attentionGradKernel works on parts of heads in parallel. The contributions of parts, and
// of the query heads sharing a key head, are added to the key head in order, making sums
// independent of the order in which parts finish.
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
		each := h.group * h.Parts() // contributions to a key head
		w := exec.New[attentionGrad[T]](a)
		w.dry, w.headsOf, w.q, w.k, w.v, w.out, w.lse, w.dout, w.dlse, w.dq, w.dk, w.dv = a.Dry(), h, q, k, v, out, lse, dout, dlse, dq, dk, dv
		claim := 1
		// One thread computes a whole key head, unless this leaves threads without work.
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

// add computes contributions [first, last) to key head i, and adds them.
func (h *attentionGrad[T]) add(i, first, last int) {
	parts := h.Parts()
	b, g := i/h.m, i%h.m
	x := h.sequence(b)
	at := x.Attend(h.dry, kernel.HeadOf(h.k, b, g, h.r, h.m, h.D), kernel.HeadOf(h.v, b, g, h.r, h.m, h.V))
	defer at.Release()
	dk, dv := kernel.HeadOf(h.dk, b, g, h.r, h.m, h.D), kernel.HeadOf(h.dv, b, g, h.r, h.m, h.V)
	for turn := first; turn < last; turn++ {
		n := g*h.group + turn/parts - h.off
		if h.dry != nil {
			n = 0
		}
		elsewhere := n < 0 || n >= h.n // another rank has this query head
		if !elsewhere {
			rows := (b*h.n + n) * h.s
			from, to := h.Part(turn % parts)
			at.Backward(kernel.HeadOf(h.q, b, n, h.s, h.n, h.D), kernel.HeadOf(h.out, b, n, h.s, h.n, h.V), kernel.From(h.lse, rows),
				kernel.HeadOf(h.dout, b, n, h.s, h.n, h.V), kernel.From(h.dlse, rows), kernel.HeadOf(h.dq, b, n, h.s, h.n, h.D), h.biasOf(b, n), from, to)
		}
		if !h.sums.Wait(i, turn) {
			return
		}
		clean := x.R // keys from here on receive no contribution
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
