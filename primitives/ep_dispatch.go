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
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// DispatchOp sends tokens to the ranks of their experts: one row per routed
// (token, choice) pair, in the order (expert, token, choice). A token's row is sent once
// to each rank holding experts for it. A second argument adds the weights of the pairs.
// Dispatch is linear; its transpose is CombineOp.
type DispatchOp struct {
	Experts  int
	Capacity int
	Receive  int
	Align    int
	Axis     string
	Exchange ep.Exchange
	Wire     graph.DType `graph:"wire"`
}

var (
	_ primitive           = DispatchOp{}
	_ lowering.RowCounter = DispatchOp{}
)

// Dispatch returns rows in expert order: tokens[t] once for every choice of token t
// kept by r. Rows past an expert's count are zero. tokens is [..,H] with the leading
// dimensions of the choices.
func Dispatch(r Prepared, tokens *graph.Value) *graph.Value {
	graph.Helper()
	return graph.Apply1(r.Op.dispatch(), r.batch(tokens), r.Value)
}

// DispatchWeighted is Dispatch with weights [..,K], one per pair. The second result holds
// the weight of every row.
func DispatchWeighted(r Prepared, tokens, weights *graph.Value) (rows, rowWeights *graph.Value) {
	graph.Helper()
	out := graph.Apply(r.Op.dispatch(), r.batch(tokens), r.batch(weights), r.Value)
	return out[0], out[1]
}

// batch returns x with its leading dimensions merged into one. They must be the leading
// dimensions of the choices.
func (r Prepared) batch(x *graph.Value) *graph.Value {
	graph.Helper()
	lead := r.chosen.Type.Shape[:r.chosen.Rank()-1]
	if x.Rank() != len(lead)+1 || !slices.Equal(x.Type.Shape[:len(lead)], lead) {
		graph.Fail("%s is not of the batch %v that was routed; route the same tokens", x.Type, lead)
	}
	return flatten(x)
}

func (DispatchOp) Name() string { return "ep_dispatch" }

func (p DispatchOp) layer() epLayer {
	axis := p.Axis
	if axis == "" {
		axis = defaultAxis
	}
	wire := p.Wire
	if wire.IsF8() { // applies to rows of a combine only, see CombineOp.Lower
		wire = graph.NoDType
	}
	return epLayer{ep.Layer{Experts: p.Experts, Capacity: p.Capacity, Align: p.Align}, p.Receive, axis, p.Exchange, wire}
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
	out := graph.Apply(p.transpose(), append(args, routing)...)
	return append(out, nil), nil
}

// transpose returns the combine of cotangents. They return unrounded, even if the layer's rows
// return in 8 bits. DeepSeek-V3's training in 8 bits likewise keeps combines in bf16 (DeepSeek-V3
// Technical Report, 2024, section 3.3.3).
func (p DispatchOp) transpose() CombineOp {
	if p.Wire.IsF8() {
		p.Wire = graph.NoDType
	}
	return CombineOp(p)
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
	if err := l.checkLayer(c.Eqn.In[n-1].Origin()); err != nil {
		return dec, err
	}
	if err := l.checkRanges(c.Mesh); err != nil {
		return dec, err
	}
	if sharding.Over(dec.In[0].At(1), l.axis) {
		return dec, fmt.Errorf("dimension 1 of the tokens is split over %s, which splits the experts; gather it with sharding_constraint", l.axis)
	}
	routing := c.Eqn.In[n-1].Origin()
	rows := l.rowsSpec(c.Mesh, dec.In[0].At(0), routing, p)
	for i := range dec.Out {
		dec.Out[i].Dims[0], dec.Out[i].Ragged = rows.Dims[0], rows.Ragged
	}
	return dec, nil
}

// RowCounts returns the number of this rank's rows for each of its experts.
func (p DispatchOp) RowCounts(e *lowering.Emitter, rows sharding.Spec) (lowering.Buf, error) {
	return p.layer().counts(e, rows.Ragged.Routing, rows.Ragged.Tokens, rows.Ragged.Rows)
}

// ZoneAlign returns the alignment of the experts' zones.
func (p DispatchOp) ZoneAlign() int { return p.Align }

// Lower packs rows by destination, exchanges them, and permutes the received rows into
// expert order. If no rows travel, because the rank has all experts or its tokens are
// replicated over the ranks holding experts, Lower permutes the rank's own tokens.
func (p DispatchOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	l := p.layer()
	axes, rows := out[0].Spec.Ragged.Tokens, out[0].Spec.Ragged.Rows
	routing := e.Eqn.In[len(e.Eqn.In)-1].Origin()
	payload := in[:len(in)-1]
	k := routing.Type.Shape[1]
	if !l.travels(e.Mesh, axes) {
		o, err := l.localOrder(e, routing, axes, rows)
		if err != nil {
			return err
		}
		return p.placeRows(e, out, payload, payload[0], o.from, o.choice)
	}
	if l.machines(e.Mesh, axes) > 1 {
		return p.dispatchThroughMachines(e, routing, axes, out, payload)
	}
	inline, err := l.sendInline(e, routing, axes, payload)
	if err != nil {
		return err
	}
	x, err := l.rowExchange(e, routing, axes, rows)
	if err != nil {
		return err
	}
	if inline.sent {
		from, err := inline.zoneRows(e, x)
		if err != nil {
			return err
		}
		return p.placeRows(e, out, payload, inline.got, from, x.choice)
	}
	// A row carries the weights of all choices of its token.
	types := rowTypes(bufTypes(payload), k)
	size := bytesOf(types)
	maxSent := x.sent.Type.Len()
	send, got := e.Packed(maxSent, types...), e.Packed(x.capacity, types...)
	if err := packTokens(e, send, payload, x.sent); err != nil {
		return err
	}
	l.exchangeRows(e, l.axis, got, send, x.sizes, size, maxSent, false)
	return p.placeRows(e, out, payload, got, x.from, x.choice)
}

// packTokens emits the packing of the rows of tokens i32[rows]. Unused elements at its end are -1.
func packTokens(e *lowering.Emitter, send lowering.Buf, payload []lowering.Buf, tokens lowering.Buf) error {
	rows, size := send.Type.Shape[0], send.Type.Shape[1]
	return e.Emit(lowering.KernelSpec{Op: ops.EPPack, Out: []lowering.Buf{send}, In: append(payload[:len(payload):len(payload)], tokens), Kernel: func(a *exec.Args) error {
		n := len(a.In) - 1
		from := tokenLayout(a.In[:n])
		to := packedLayout(a.Out[0], from.values.size, from.values.size, from.weights.size)
		exec.Share(a, rows, movedGrain(size), rowMove{to: to, from: from, at: data[int32](a.In[n])})
		return nil
	}})
}

// tokenLayout locates the payload of tokens, treating the weights of all choices of a token as one
// element.
func tokenLayout(payload []array.Array) rowLayout {
	p := arrayLayout(payload, 1)
	if len(payload) == 2 {
		p.weights.stride *= payload[1].Type.Shape[1]
		p.weights.size = p.weights.stride
	}
	return p
}

// placeRows emits the gather of rows x into expert order. Row i becomes row from[i] of x, with that row's weight
// number choice[i]. x is the packed rows received or, with the weights in a separate array, the tokens.
func (p DispatchOp) placeRows(e *lowering.Emitter, out, payload []lowering.Buf, x, from, choice lowering.Buf) error {
	rows := out[0].Spec.Ragged
	counts, err := p.layer().counts(e, rows.Routing, rows.Tokens, rows.Rows)
	if err != nil {
		return err
	}
	in, local := []lowering.Buf{x, from, counts}, x.ID == payload[0].ID
	if len(payload) == 2 {
		in = append(in, choice)
		if local {
			in = append(in, payload[1])
		}
	}
	return e.Emit(lowering.KernelSpec{Op: ops.EPPlace, Out: out, In: in, Kernel: func(a *exec.Args) error {
		m := rowMove{to: arrayLayout(a.Out, 1), at: data[int32](a.In[1])}
		if len(a.Out) == 2 {
			m.choice = data[int32](a.In[3])
		}
		switch v := m.to.values.size; {
		case !local:
			m.from = packedLayout(a.In[0], v, v, m.to.weights.size)
		case len(a.Out) == 2:
			w := a.In[4]
			m.from = arrayLayout([]array.Array{a.In[0], w}, w.Type.Shape[1])
		default:
			m.from = arrayLayout(a.In[:1], 1)
		}
		exec.Share(a, min(len(m.at), a.Out[0].Type.Shape[0]), movedGrain(m.to.values.size+m.to.weights.size), m)
		return nil
	}})
}

// exchangeRows emits the all_to_all of rows of size bytes over an axis, or a level of it. sizes
// i32[2,members] holds the number of rows dispatched to each member and received from it. back selects the
// return path, swapping the two. A rank dispatches, or gets back, at most maxSent rows.
func (l epLayer) exchangeRows(e *lowering.Emitter, axis string, out, in, sizes lowering.Buf, size, maxSent int, back bool) {
	e.EmitCollective(lowering.CollectiveSpec{Op: ops.AllToAll, Axes: []string{axis}, DType: graph.U8, Bytes: int64(maxSent) * int64(size),
		Out: []lowering.Buf{out}, In: []lowering.Buf{in, sizes}, Travels: true,
		Exchange: func(ctx context.Context, g collective.Group, c collective.Call, a *exec.Args) error {
			sizes := data[int32](a.In[1])
			send, recv := sizes[:len(sizes)/2], sizes[len(sizes)/2:]
			if back {
				send, recv = recv, send
			} else if arrive, capacity := sumOf(recv), a.Out[0].Type.Shape[0]; arrive > capacity {
				return DispatchOp{}.NoRoom(arrive, capacity)
			}
			return g.AllToAll(ctx, c, memberSlicesOf(a, a.Out[0], recv, size), memberSlicesOf(a, a.In[0], send, size))
		}})
}

func (DispatchOp) Doc() graph.Doc {
	return graph.Doc{
		Args:    "tokens t[T,H], weights f[T,K] (may be left out), routing i32[T,K,2]",
		Results: "rows t[S,H], row_weights f[S] (with weights)",
		Formula: "rows[σ(t,k)] = tokens[t], row_weights[σ(t,k)] = weights[t,k]; σ orders the kept pairs by (expert, token, choice), experts' zones starting at multiples of align",
		Params:  "experts, capacity, receive, align, axis, exchange, wire: those of ep_prepare",
		Notes:   "Rows past each expert's count are zero. A rank holds the rows of its experts. Tokens that are split over the experts' axis travel in one all_to_all, once to each rank that has experts for them, and with their choices where ep_prepare does not gather these; if the mesh has machines along the axis, in one between machines, once to each, and one within; of tokens that are whole over it, each rank copies the rows of its own experts. The transpose is ep_combine.",
	}
}
