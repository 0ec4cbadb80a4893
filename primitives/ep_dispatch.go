package primitives

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// DispatchOp brings tokens to the ranks of their experts: one row per routed
// (token, choice) pair, in the order (expert, token, choice). With a second
// argument the weights of the pairs travel along. Dispatch is linear; its transpose
// is CombineOp.
type DispatchOp struct {
	Experts  int
	Capacity int
	Align    int
	Axis     string
	Exchange ep.Exchange
	Wire     graph.DType
}

var (
	_ primitive           = DispatchOp{}
	_ lowering.RowCounter = DispatchOp{}
)

// Dispatch returns the rows of r's experts in expert order: tokens[t] once for every
// choice of token t that r keeps. Rows past an expert's count are zero. tokens is
// [..,H] with the leading dimensions of the choices.
func Dispatch(r Prepared, tokens *graph.Value) *graph.Value {
	graph.Helper()
	return graph.Apply1(r.Op.dispatch(), r.batch(tokens), r.Value)
}

// DispatchWeighted is Dispatch that also dispatches weights [..,K], one for each pair:
// the second result holds the weight of every row.
func DispatchWeighted(r Prepared, tokens, weights *graph.Value) (rows, rowWeights *graph.Value) {
	graph.Helper()
	out := graph.Apply(r.Op.dispatch(), r.batch(tokens), r.batch(weights), r.Value)
	return out[0], out[1]
}

// batch returns x with its leading dimensions, those of the choices, merged into one.
func (r Prepared) batch(x *graph.Value) *graph.Value {
	graph.Helper()
	ok := x.Rank() == len(r.lead)+1
	for i := range r.lead {
		ok = ok && x.Dim(i) == r.lead[i]
	}
	if !ok {
		graph.Fail("%s is not of the batch %v that was routed; route the same tokens", x.Type, r.lead)
	}
	return flatten(x)
}

func (DispatchOp) Name() string { return "ep_dispatch" }

func (p DispatchOp) layer() epLayer {
	axis := p.Axis
	if axis == "" {
		axis = defaultAxis
	}
	return epLayer{ep.Layer{Experts: p.Experts, Capacity: p.Capacity, Align: p.Align}, axis, p.Exchange, p.Wire}
}

func (p DispatchOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if len(in) != 2 && len(in) != 3 {
		return nil, fmt.Errorf("%d arguments, want tokens, routing or tokens, weights, routing", len(in))
	}
	r := in[len(in)-1]
	if err := checkRouting(p.layer(), r); err != nil {
		return nil, err
	}
	x := in[0]
	if x.Rank() != 2 {
		return nil, fmt.Errorf("tokens are %s, want [tokens, hidden]", x)
	}
	if x.Shape[0] != r.Shape[0] {
		return nil, fmt.Errorf("%d tokens but routing for %d; route the same tokens", x.Shape[0], r.Shape[0])
	}
	rows := p.layer().Rows(r.Shape[0] * r.Shape[1])
	out := []graph.Type{graph.T(x.DType, rows, x.Shape[1])}
	if len(in) == 3 {
		w := in[1]
		if w.Rank() != 2 || w.Shape[0] != r.Shape[0] || w.Shape[1] != r.Shape[1] {
			return nil, fmt.Errorf("weights are %s, want [%d,%d], one per token and choice", w, r.Shape[0], r.Shape[1])
		}
		if err := floating(w); err != nil {
			return nil, err
		}
		out = append(out, graph.T(w.DType, rows))
	}
	return out, nil
}

func checkRouting(l epLayer, r graph.Type) error {
	if r.DType != graph.I32 || r.Rank() != 3 || r.Shape[2] != 2 {
		return fmt.Errorf("routing is %s, want i32[tokens, choices, 2] as ep_prepare returns it", r)
	}
	return l.check(r.Shape[0], r.Shape[1])
}

func (p DispatchOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	routing := e.In[len(e.In)-1]
	args := make([]*graph.Value, 0, 3)
	for i, v := range e.Out {
		if v.Type.DType.Cotangent() == graph.NoDType {
			return nil, errors.New("tokens of integer type have no cotangent")
		}
		args = append(args, vjp.Instantiate(ct[i], v))
	}
	out := graph.Apply(CombineOp(p), append(args, routing)...)
	return append(out, nil), nil
}

func (p DispatchOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	n := len(c.In)
	f := sharding.Factors{In: [][]int{{0, 1}}, Out: [][]int{{2, 1}}}
	if n == 3 {
		f.In = append(f.In, []int{0, sharding.Whole})
		f.Out = append(f.Out, []int{2})
	}
	f.In = append(f.In, []int{0, sharding.Whole, sharding.Whole})
	dec, err := c.Place(f)
	if err != nil {
		return dec, err
	}
	l := p.layer()
	if err := l.madeFor(c.Eqn.In[n-1].Origin()); err != nil {
		return dec, err
	}
	if err := l.divided(c.Mesh); err != nil {
		return dec, err
	}
	if slices.Contains(dec.In[0].At(1), l.axis) {
		return dec, fmt.Errorf("dimension 1 of the tokens is split over %s, which splits the experts; gather it with sharding_constraint", l.axis)
	}
	routing := c.Eqn.In[n-1].Origin()
	t := routing.Type
	rows := l.rowsSpec(c.Mesh, dec.In[0].At(0), routing, t.Shape[0]*t.Shape[1], p)
	for i := range dec.Out {
		dec.Out[i].Dims[0], dec.Out[i].Ragged = rows.Dims[0], rows.Ragged
	}
	return dec, nil
}

// RowCounts returns the number of rows that this rank holds of each of its experts.
func (p DispatchOp) RowCounts(e *lowering.Emitter, rows sharding.Spec) (lowering.Buf, error) {
	return p.layer().counts(e, rows.Ragged.Routing, rows.Ragged.Tokens, rows.Ragged.Rows)
}

// ZoneAlign returns the alignment of the experts' zones.
func (p DispatchOp) ZoneAlign() int { return p.Align }

// Lower packs the rank's rows by destination, exchanges them, and puts the rows that
// arrived in expert order. Where no rows travel, because the rank has all experts or all
// ranks with experts have its tokens, Lower copies the rank's rows in expert order.
func (p DispatchOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	l := p.layer()
	routing := e.Eqn.In[len(e.Eqn.In)-1].Origin()
	payload := in[:len(in)-1]
	axes, rows := out[0].Spec.Ragged.Tokens, out[0].Spec.Ragged.Rows
	k := routing.Type.Shape[1]
	place, err := l.sendPlace(e, routing, axes)
	if err != nil {
		return err
	}
	recv, err := l.recvOrder(e, routing, axes, rows)
	if err != nil {
		return err
	}
	size := rowBytes(payload)
	if l.members(e.Mesh, axes) == 1 {
		return e.Emit(lowering.KernelSpec{Name: "ep_permute", Out: out, In: append(payload[:len(payload):len(payload)], place, recv), Kernel: func(a *exec.Args) error {
			n := len(a.In) - 2
			place, recv := data[int32](a.In[n]), data[int32](a.In[n+1])
			exec.Share(a, len(place), movedGrain(size), pairsOrdered{a, place, recv, k})
			return nil
		}})
	}
	pairs := place.Type.Shape[0]
	send, got := e.Packed(pairs, rowTypes(payload)...), e.Packed(rows, rowTypes(payload)...)
	if err := e.Emit(lowering.KernelSpec{Name: "ep_pack", Out: []lowering.Buf{send}, In: append(payload[:len(payload):len(payload)], place), Kernel: func(a *exec.Args) error {
		n := len(a.In) - 1
		exec.Share(a, pairs, movedGrain(size), pairsPacked{a.Out[0].Bytes(), a.In[:n], data[int32](a.In[n]), size, k})
		return nil
	}}); err != nil {
		return err
	}
	if err := l.exchange(e, routing, axes, got, send, size, pairs, false); err != nil {
		return err
	}
	counts, err := l.counts(e, routing, axes, rows)
	if err != nil {
		return err
	}
	return e.Emit(lowering.KernelSpec{Name: "ep_place", Out: out, In: []lowering.Buf{got, recv, counts}, Kernel: func(a *exec.Args) error {
		buf, recv := a.In[0].Bytes(), data[int32](a.In[1])
		exec.Share(a, total(a.In[2]), movedGrain(size), rowsPlaced{a.Out, buf, recv, size})
		return nil
	}})
}

// pairsOrdered is the work of copying pairs to expert order.
type pairsOrdered struct {
	*exec.Args
	place, recv []int32
	k           int
}

func (w *pairsOrdered) Piece(lo, hi int) {
	for pair := lo; pair < hi; pair++ {
		if w.place[pair] < 0 {
			continue
		}
		row := int(w.recv[w.place[pair]])
		copy(entry(w.Out[0], row), entry(w.In[0], pair/w.k))
		if len(w.Out) == 2 {
			copy(element(w.Out[1], row), element(w.In[1], pair))
		}
	}
}

// pairsPacked is the work of packing the pairs that leave for their experts.
type pairsPacked struct {
	buf     []byte
	payload []array.Array
	place   []int32
	size, k int
}

func (w *pairsPacked) Piece(lo, hi int) {
	for pair := lo; pair < hi; pair++ {
		if j := int(w.place[pair]); j >= 0 {
			packRow(w.buf[j*w.size:(j+1)*w.size], w.payload, pair/w.k, pair)
		}
	}
}

// rowsPlaced is the work of copying the rows that have arrived to expert order.
type rowsPlaced struct {
	rows []array.Array
	buf  []byte
	recv []int32
	size int
}

func (w *rowsPlaced) Piece(lo, hi int) {
	for j := lo; j < hi; j++ {
		unpackRow(w.rows, w.buf[j*w.size:], int(w.recv[j]))
	}
}

// exchange emits the all_to_all of a dispatch or, with back set, of a combine.
func (l epLayer) exchange(e *lowering.Emitter, routing *graph.Value, axes []string, out, in lowering.Buf, size, pairs int, back bool) error {
	table, err := l.table(e, routing, axes)
	if err != nil {
		return err
	}
	e.EmitCollective(lowering.CollectiveSpec{Op: "all_to_all", Axes: []string{l.axis}, DType: graph.U8, Bytes: int64(pairs) * int64(size),
		Out: []lowering.Buf{out}, In: []lowering.Buf{in, table}, Travels: true,
		Exchange: func(ctx context.Context, g collective.Group, c collective.Call, a *exec.Args) error {
			eg, member := l.group(a, axes)
			kept, n := data[int32](a.In[1]), len(eg.Sources)
			home, away := exec.Make[int32](a, n), exec.Make[int32](a, n)
			eg.SendCounts(home, kept, member)
			eg.RecvCounts(away, kept, member)
			if back {
				home, away = away, home
			}
			return g.AllToAll(ctx, c, parcelsOf(a, a.Out[0], away, size), parcelsOf(a, a.In[0], home, size))
		}})
	return nil
}

func (DispatchOp) Doc() graph.Doc {
	return graph.Doc{
		Args:    "tokens t[T,H], weights f[T,K] (may be left out), routing i32[T,K,2]",
		Results: "rows t[S,H], row_weights f[S] (with weights)",
		Formula: "rows[σ(t,k)] = tokens[t], row_weights[σ(t,k)] = weights[t,k]; σ orders the kept pairs by (expert, token, choice), experts' zones starting at multiples of align",
		Params:  "experts, capacity, align, axis, exchange, wire: those of ep_prepare",
		Notes:   "Rows past each expert's count are zero. A rank holds the rows of its experts. Tokens that are split over the experts' axis travel in one all_to_all; of tokens that are whole over it, each rank copies the rows of its own experts. The transpose is ep_combine.",
	}
}
