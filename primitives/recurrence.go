package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/recurrence"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// recurrenceOp is a linear recurrence; see Recurrence.
type recurrenceOp struct {
	// Rates and Lengths are set if these arguments follow q, k, v, decay and state, in this order.
	Rates, Lengths bool
}

var _ primitive = recurrenceOp{}

// RecurrenceParams are the optional arguments of Recurrence.
type RecurrenceParams struct {
	// Rates β[B,T,N] select the delta rule. nil means that u is v.
	Rates *graph.Value
	// State is S before the first row, [B,N,K,V]. nil means zeros.
	State *graph.Value
	// Lengths i32[B] are the numbers of rows of the sequences; nil means T. Later rows of a sequence
	// leave its state as it is, and have out 0.
	Lengths *graph.Value
}

// Recurrence returns, for queries q[B,T,M,K], keys k[B,T,M,K] and values v[B,T,N,V], with M dividing N, and
// the logarithms of decays decay[B,T,N] or, one for each element of a key, decay[B,T,N,K], the results
// out[B,T,N,V] and the last state S[B,N,K,V] of the recurrence over rows t
//
//	S = diag(exp(decay[b,t,n])) S
//	u = β[b,t,n] (v[b,t,n] - Sᵀ k[b,t,m]),  or v[b,t,n] without Rates;  m = n / (N/M)
//	S = S + k[b,t,m] uᵀ
//	out[b,t,n] = Sᵀ q[b,t,m]
//
// With Rates it is the gated delta rule or, with a decay for each element, Kimi's delta attention. Without Rates it is
// Mamba2, with C as q, B as k and dt·x as v, or linear attention with a fixed decay. Decays above 0 let the state grow.
// q, k and v have one float type. For bf16 and f16, decay, Rates and State are f32 or of that type, and the state is f32
// if State is nil. Rows are computed one after another, so a sequence in parts has the bits of the whole one. The
// derivative is computed in blocks of 64 rows, or of 16 if each element has a decay. A donated state is updated in place.
func Recurrence(q, k, v, decay *graph.Value, p RecurrenceParams) (out, state *graph.Value) {
	graph.Helper()
	state = p.State
	if state == nil && q != nil && v != nil && q.Rank() == 4 && v.Rank() == 4 {
		state = Full(q.Tracer(), 0, max(q.Type.DType, graph.F32), v.Dim(0), v.Dim(2), q.Dim(3), v.Dim(3))
	}
	op, args := recurrenceOp{Rates: p.Rates != nil, Lengths: p.Lengths != nil}, []*graph.Value{q, k, v, decay, state}
	if op.Rates {
		args = append(args, p.Rates)
	}
	if op.Lengths {
		args = append(args, p.Lengths)
	}
	r := graph.Apply(op, args...)
	return r[0], r[1]
}

func (recurrenceOp) Name() string { return "recurrence" }

// optional returns the indices of the optional arguments after the first `first`, 0 for none, and the number of all.
func (p recurrenceOp) optional(first int) (rates, lengths, count int) {
	return optionalArgs(first, p.Rates, p.Lengths)
}

// optionalArgs returns the indices of two optional arguments after the first `first`, 0 for none, and the number of all.
func optionalArgs(first int, haveX, haveY bool) (x, y, count int) {
	count = first
	if haveX {
		x = count
		count++
	}
	if haveY {
		y = count
		count++
	}
	return x, y, count
}

func (p recurrenceOp) Infer(in []graph.Type) ([]graph.Type, error) {
	rates, lengths, count := p.optional(5)
	if err := arity(in, count); err != nil {
		return nil, err
	}
	q, k, v, decay, state := in[0], in[1], in[2], in[3], in[4]
	if err := floating(q); err != nil {
		return nil, fmt.Errorf("q: %w", err)
	}
	if q.Rank() != 4 || v.Rank() != 4 {
		return nil, fmt.Errorf("q is %s and v is %s, want q[B,T,M,K] and v[B,T,N,V]", q, v)
	}
	b, t, m, kd, n, vd := q.Shape[0], q.Shape[1], q.Shape[2], q.Shape[3], v.Shape[2], v.Shape[3]
	if !k.Equal(q) {
		return nil, fmt.Errorf("k is %s, want %s as q", k, q)
	}
	if want := graph.T(q.DType, b, t, n, vd); !v.Equal(want) {
		return nil, fmt.Errorf("v is %s for q %s, want %s", v, q, want)
	}
	if m == 0 && n > 0 || m > 0 && n%m != 0 {
		return nil, fmt.Errorf("%d heads of v for %d heads of q and k, want a multiple", n, m)
	}
	wide := max(q.DType, graph.F32)
	is := func(x, want graph.Type) bool { return x.Equal(want) || x.Equal(want.With(q.DType)) }
	each, channels := graph.T(wide, b, t, n), graph.T(wide, b, t, n, kd)
	if !is(decay, each) && !is(decay, channels) {
		return nil, fmt.Errorf("decay is %s, want %s or %s", decay, each, channels)
	}
	if want := graph.T(wide, b, n, kd, vd); !is(state, want) {
		return nil, fmt.Errorf("state is %s, want %s", state, want)
	}
	if p.Rates && !is(in[rates], each) {
		return nil, fmt.Errorf("rates are %s, want %s", in[rates], each)
	}
	if want := graph.T(graph.I32, b); p.Lengths && !in[lengths].Equal(want) {
		return nil, fmt.Errorf("lengths are %s, want %s", in[lengths], want)
	}
	return []graph.Type{v, state}, nil
}

func (p recurrenceOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	_, _, count := p.optional(5)
	in := append(append([]*graph.Value{}, e.In[:5]...), vjp.Instantiate(ct[0], e.Out[0]), vjp.Instantiate(ct[1], e.Out[1]))
	in = append(in, e.In[5:]...)
	grads := graph.Apply(recurrenceGradOp(p), in...)
	if p.Lengths {
		grads = append(grads, nil)
	}
	return grads[:count], nil
}

// factors returns the factors: batch 0 and heads 1 may be split. keys are the factors of q and k. See placeHeads.
func (p recurrenceOp) factors(c *sharding.Context, keys []int, cotangents bool) sharding.Factors {
	values, state := []int{0, sharding.Whole, 1, sharding.Whole}, []int{0, 1, sharding.Whole, sharding.Whole}
	rows := []int{0, sharding.Whole, 1}
	decays := append(rows[:3:3], sharding.Whole)[:c.Type(3).Rank()]
	f := sharding.Factors{In: [][]int{keys, keys, values, decays, state}, Out: [][]int{values, state}}
	if cotangents {
		f.In, f.Out = append(f.In, values, state), [][]int{keys, keys, values, decays, state}
	}
	if p.Rates {
		if f.In = append(f.In, rows); cotangents {
			f.Out = append(f.Out, rows)
		}
	}
	if p.Lengths {
		f.In = append(f.In, []int{0})
	}
	return f
}

func (p recurrenceOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	d, _, err := placeHeads(c, 2, 0, func(keys []int) sharding.Factors { return p.factors(c, keys, false) })
	return d, err
}

func (p recurrenceOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	k := inFloat(recurrenceKernel[float32](p, in, e.Eqn), recurrenceKernel[float64](p, in, e.Eqn))
	return e.Emit(lowering.KernelSpec{Op: ops.Recurrence, Out: out, In: in, Over: [][2]int{{1, 4}}, Dry: k, Kernel: k})
}

func (recurrenceOp) Doc() graph.Doc {
	return graph.Doc{Args: "q f[B,T,M,K], k f[B,T,M,K], v f[B,T,N,V], decay f32[B,T,N] or f32[B,T,N,K], state f32[B,N,K,V], and where their parameters say so rates f32[B,T,N], lengths i32[B]",
		Results: "out f[B,T,N,V], last f32[B,N,K,V]",
		Formula: "S = diag(exp(decay[t])) S, u = rates[t] (v[t] - Sᵀk[t]) or v[t], S = S + k[t] uᵀ, out[t] = Sᵀq[t], for t from 0 to T-1; last = S",
		Params:  "rates: the delta rule; without them u is v[t]; lengths: rows of each sequence; later rows leave its state as it is and have out 0",
		Notes:   "Head n of v uses head n/(N/M) of q and k. decay, state and rates are f64 for f64, and f32 or of q's type for others. Rows are computed one after another, so a sequence in parts has the bits of the whole one. The derivative is computed in blocks of 64 rows, or 16 if decay has 4 dimensions, with products of matrices, and keeps the states at their starts; no exponent is above 0 if no decay is."}
}

// recurrenceArgs are the arguments on one rank: b sequences of t rows, with n value heads and m key heads.
type recurrenceArgs[T float] struct {
	recurrence.Head
	b, t, n, m                   int
	off, group                   int // see keyHeads
	lengths                      lengths
	q, k, v, decay, state, rates []T
}

// newRecurrenceArgs returns the arguments of a kernel with optional arguments after the first `first`. A length
// above the number of rows is an error.
func newRecurrenceArgs[T float](p recurrenceOp, a *exec.Args, first int, placed []lowering.Buf, eqn *graph.Eqn) (recurrenceArgs[T], error) {
	q, v := a.In[0].Type.Shape, a.In[2].Type.Shape
	rates, lengths, _ := p.optional(first)
	x := recurrenceArgs[T]{Head: recurrence.Head{K: q[3], V: v[3], Channels: a.In[3].Type.Rank() == 4, Delta: p.Rates}, b: q[0], t: q[1], n: v[2], m: q[2],
		q: data[T](a.In[0]), k: data[T](a.In[1]), v: data[T](a.In[2]), decay: data[T](a.In[3]), state: data[T](a.In[4])}
	x.off, x.group = keyHeads(a, placed, eqn, 2, 0)
	if p.Rates {
		x.rates = data[T](a.In[rates])
	}
	var err error
	if p.Lengths {
		x.lengths, err = lengthsOf(a, lengths, x.t, placed, eqn)
	}
	return x, err
}

// lengths are the numbers of rows of sequences. nil means all rows.
type lengths []int32

// lengthsOf returns argument i, which holds lengths. A length above the number of rows is an error.
func lengthsOf(a *exec.Args, i, rows int, placed []lowering.Buf, eqn *graph.Eqn) (lengths, error) {
	if a.Dry() != nil {
		return nil, nil
	}
	x := data[int32](a.In[i])
	for b, n := range x {
		if n < 0 || int(n) > rows {
			return nil, idError(a, placed[i].Spec, eqn.In[i].Type, b, n, 0, rows+1, "length")
		}
	}
	return x, nil
}

// of returns the length of sequence b, which has this number of rows.
func (l lengths) of(b, rows int) int {
	if l == nil {
		return rows
	}
	return int(l[b])
}

// rows returns the rows of head n of sequence b of an array [B,T,heads,width].
func (x *recurrenceArgs[T]) rows(of []T, b, n, heads, width int) kernel.Rows[T] {
	return kernel.HeadOf(of, b, n, x.t, heads, width)
}

// in returns the rows of value head n of sequence b in arrays like the arguments.
func (x *recurrenceArgs[T]) in(q, k, v, decay, rates []T, b, n int) recurrence.In[T] {
	key := (x.off + n) / x.group
	return recurrence.In[T]{Queries: x.rows(q, b, key, x.m, x.K), Keys: x.rows(k, b, key, x.m, x.K), Values: x.rows(v, b, n, x.n, x.V),
		Decays: x.rows(decay, b, n, x.n, x.Decays()), Rates: x.rows(rates, b, n, x.n, 1)}
}

// rowGrain is the number of rows of one head worth a goroutine.
func (x *recurrenceArgs[T]) rowGrain() int { return 1 + dotGrain/(1+4*x.K*x.V) }

func recurrenceKernel[T float](p recurrenceOp, placed []lowering.Buf, eqn *graph.Eqn) exec.Kernel {
	return func(a *exec.Args) error {
		x, err := newRecurrenceArgs[T](p, a, 5, placed, eqn)
		if err != nil {
			return err
		}
		exec.Share(a, x.b*x.n, 1+x.rowGrain()/max(x.t, 1), recurrenceWork[T]{x, data[T](a.Out[0]), data[T](a.Out[1]), exec.RoomsOf[T](a, x.Scratch())})
		return nil
	}
}

type recurrenceWork[T float] struct {
	recurrenceArgs[T]
	out, last []T
	rooms     *exec.Rooms[T]
}

func (w *recurrenceWork[T]) Piece(lo, hi int) {
	room, size := w.rooms.Take(), w.K*w.V
	for i := lo; i < hi; i++ {
		b, n := i/w.n, i%w.n
		last, out, rows := w.last[i*size:][:size], w.rows(w.out, b, n, w.n, w.V), w.lengths.of(b, w.t)
		if state := w.state[i*size:][:size]; size > 0 && &state[0] != &last[0] {
			copy(last, state)
		}
		recurrence.Forward(w.Head, rows, w.in(w.q, w.k, w.v, w.decay, w.rates, b, n), last, out, room)
		clearRows(out, rows, w.t, w.V)
	}
}

// clearRows sets rows [from, to) to zero.
func clearRows[T float](x kernel.Rows[T], from, to, width int) {
	for i := from; i < to; i++ {
		clear(x.Row(i, width))
	}
}

// recurrenceGradOp is the derivative of recurrenceOp: the cotangents of q, k, v, decay, state and the rates from
// these five, the cotangents of out and of the last state, and the optional arguments.
type recurrenceGradOp recurrenceOp

var _ primitive = recurrenceGradOp{}

func (recurrenceGradOp) Name() string { return "recurrence_grad" }

func (p recurrenceGradOp) Infer(in []graph.Type) ([]graph.Type, error) {
	rates, _, count := recurrenceOp(p).optional(7)
	if err := arity(in, count); err != nil {
		return nil, err
	}
	out, err := recurrenceOp(p).Infer(append(append([]graph.Type(nil), in[:5]...), in[7:]...))
	if err != nil {
		return nil, err
	}
	for i, want := range out {
		if !in[5+i].Equal(want) {
			return nil, fmt.Errorf("argument %d is %s, want %s for q, k and v of these types", 5+i, in[5+i], want)
		}
	}
	grads := in[:5:5]
	if p.Rates {
		grads = append(grads, in[rates])
	}
	return grads, nil
}

// VJP differentiates the formula, which goes row by row.
func (p recurrenceGradOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return differentiate(e, ct, func(in []*graph.Value) []*graph.Value {
		args, cts := append(in[:5:5], in[7:]...), in[5:7]
		grads, err := differentiate(&graph.Eqn{In: args, Out: cts}, cts, recurrenceOp(p).formula)
		if err != nil {
			graph.Fail("%v", err)
		}
		_, _, count := recurrenceOp(p).optional(5)
		if p.Lengths {
			count--
		}
		return grads[:count]
	})
}

// formula returns out and the last state, with simple primitives, row by row.
func (p recurrenceOp) formula(in []*graph.Value) []*graph.Value {
	q, k, v := in[0], in[1], in[2]
	rates, lengths, _ := p.optional(5)
	b, t, n, m := v.Dim(0), v.Dim(1), v.Dim(2), q.Dim(2)
	wide := func(x *graph.Value) *graph.Value { return ConvertElementType(x, max(q.Type.DType, graph.F32)) }
	heads := func(x *graph.Value) *graph.Value { // of values
		w := x.Dim(3)
		return Reshape(BroadcastInDim(wide(x), []int{b, t, m, n / max(m, 1), w}, 0, 1, 2, 4), b, t, n, w)
	}
	byRow := func(x *graph.Value) *graph.Value {
		dims := []int{1, 0, 2, 3}
		return Transpose(x, dims[:x.Rank()]...)
	}
	xs := []*graph.Value{byRow(heads(q)), byRow(heads(k)), byRow(wide(v)), byRow(wide(in[3]))}
	if p.Rates {
		xs = append(xs, byRow(wide(in[rates])))
	}
	if p.Lengths {
		row := Iota(q.Tracer(), graph.I32, 0, t, b)
		xs = append(xs, wide(Lt(row, BroadcastInDim(in[lengths], []int{t, b}, 1))))
	}
	c, ys := graph.Scan(graph.ScanParams{Length: t}, []*graph.Value{wide(in[4])}, xs, func(c, x []*graph.Value) (next, y []*graph.Value) {
		s, q, k, v, decay := c[0], x[0], x[1], x[2], x[3]
		shape := s.Type.Shape
		whole := func(x *graph.Value, dims ...int) *graph.Value { return BroadcastInDim(x, shape, dims...) }
		read := func(s, x *graph.Value) *graph.Value {
			return DotGeneral(s, x, []int{2}, []int{2}, []int{0, 1}, []int{0, 1})
		}
		dims := []int{0, 1, 2}
		s = Mul(s, whole(Exp(decay), dims[:decay.Rank()]...))
		u := v
		if p.Rates {
			u = Mul(BroadcastInDim(x[4], v.Type.Shape, 0, 1), Sub(v, read(s, k)))
		}
		s = Add(s, Mul(whole(k, 0, 1, 2), whole(u, 0, 1, 3)))
		out := read(s, q)
		if p.Lengths {
			counts := x[len(x)-1]
			s = Where(Gt(whole(counts, 0), ZerosLike(s)), s, c[0])
			out = Mul(out, BroadcastInDim(counts, out.Type.Shape, 0))
		}
		return []*graph.Value{s}, []*graph.Value{out}
	})
	return []*graph.Value{ConvertElementType(Transpose(ys[0], 1, 0, 2, 3), v.Type.DType), ConvertElementType(c[0], in[4].Type.DType)}
}

func (p recurrenceGradOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	d, alone, err := placeHeads(c, 2, 0, func(keys []int) sharding.Factors { return recurrenceOp(p).factors(c, keys, true) })
	if err != nil {
		return d, err
	}
	for i := range 2 { // each rank has the part of its heads of values
		d.Out[i].Pending = c.Mesh.Union(d.Out[i].Pending, alone)
	}
	return d, nil
}

func (p recurrenceGradOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	k := inFloat(recurrenceGradKernel[float32](recurrenceOp(p), in, e.Eqn), recurrenceGradKernel[float64](recurrenceOp(p), in, e.Eqn))
	return e.Emit(lowering.KernelSpec{Op: ops.RecurrenceGrad, Out: out, In: in, Dry: k, Kernel: k})
}

func recurrenceGradKernel[T float](p recurrenceOp, placed []lowering.Buf, eqn *graph.Eqn) exec.Kernel {
	return func(a *exec.Args) error {
		x, err := newRecurrenceArgs[T](p, a, 7, placed, eqn)
		if err != nil {
			return err
		}
		w := recurrenceGrad[T]{recurrenceArgs: x, dout: data[T](a.In[5]), dlast: data[T](a.In[6]), rooms: exec.RoomsOf[T](a, x.GradScratch(x.t)),
			dq: data[T](a.Out[0]), dk: data[T](a.Out[1]), dv: data[T](a.Out[2]), ddecay: data[T](a.Out[3]), dstate: data[T](a.Out[4])}
		if p.Rates {
			w.drates = data[T](a.Out[5])
		}
		exec.Share(a, x.b*x.m, 1+x.rowGrain()/max(x.t*x.group, 1), w)
		return nil
	}
}

// recurrenceGrad is the work of the derivative. A piece is a key head with its value heads, in order.
type recurrenceGrad[T float] struct {
	recurrenceArgs[T]
	dout, dlast                        []T
	dq, dk, dv, ddecay, dstate, drates []T
	rooms                              *exec.Rooms[T]
}

func (w *recurrenceGrad[T]) Piece(lo, hi int) {
	room, size := w.rooms.Take(), w.K*w.V
	for i := lo; i < hi; i++ {
		b, m := i/w.m, i%w.m
		clearRows(w.rows(w.dq, b, m, w.m, w.K), 0, w.t, w.K)
		clearRows(w.rows(w.dk, b, m, w.m, w.K), 0, w.t, w.K)
		for n := max(m*w.group-w.off, 0); n < min((m+1)*w.group-w.off, w.n); n++ {
			at := (b*w.n + n) * size
			dstate, grads, rows := w.dstate[at:][:size], w.in(w.dq, w.dk, w.dv, w.ddecay, w.drates, b, n), w.lengths.of(b, w.t)
			copy(dstate, w.dlast[at:])
			recurrence.Backward(w.Head, rows, w.in(w.q, w.k, w.v, w.decay, w.rates, b, n), w.state[at:][:size], w.rows(w.dout, b, n, w.n, w.V), dstate, grads, room)
			clearRows(grads.Values, rows, w.t, w.V)
			clearRows(grads.Decays, rows, w.t, w.Decays())
			if w.Delta {
				clearRows(grads.Rates, rows, w.t, 1)
			}
		}
	}
}

func (recurrenceGradOp) Doc() graph.Doc {
	return graph.Doc{Args: "q f[B,T,M,K], k f[B,T,M,K], v f[B,T,N,V], decay f32[B,T,N] or f32[B,T,N,K], state f32[B,N,K,V], dout f[B,T,N,V], dlast f32[B,N,K,V], and where their parameters say so rates f32[B,T,N], lengths i32[B]",
		Results: "dq f[B,T,M,K], dk f[B,T,M,K], dv f[B,T,N,V], ddecay as decay, dstate f32[B,N,K,V], and with rates drates f32[B,T,N]",
		Formula: "from the last row to the first, with D the cotangent of S: dq = S dout, D = D + q doutᵀ, du = Dᵀk, dk = D u; with rates drates = du·(v - S₀ᵀk), du = rates du, dk = dk - S₀ du, D = D - k duᵀ; dv = du, ddecay = Σ D S₀, D = diag(exp(decay)) D; S₀ is S after its decay",
		Params:  "rates: the delta rule; without them u is v[t]; lengths: rows of each sequence; later rows have cotangents 0",
		Notes:   "States at the starts of blocks are computed again, and kept while the derivative of a head is computed. The derivative of this operation goes row by row. Heads of v that share a head of q and k are summed in order."}
}
