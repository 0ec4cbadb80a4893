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

// DispatchOp brings tokens to the ranks of their experts: one row per routed
// (token, choice) pair, in the order (expert, token, choice). A token's row travels once
// to each rank that has experts for it. With a second argument the weights of the pairs
// travel along. Dispatch is linear; its transpose is CombineOp.
type DispatchOp struct {
	Experts  int
	Capacity int
	Receive  int
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
	if wire.IsF8() { // which concerns only rows of a combine, see CombineOp.Lower
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

// transpose returns the combine of cotangents. They come home unrounded, whatever the rows of the
// layer do: in training with 8 bits DeepSeek-V3, too, keeps what combines move in bf16
// (DeepSeek-V3 Technical Report, 2024, section 3.3.3).
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
	if err := l.madeFor(c.Eqn.In[n-1].Origin()); err != nil {
		return dec, err
	}
	if err := l.ranged(c.Mesh); err != nil {
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

// RowCounts returns the number of rows that this rank holds of each of its experts.
func (p DispatchOp) RowCounts(e *lowering.Emitter, rows sharding.Spec) (lowering.Buf, error) {
	return p.layer().counts(e, rows.Ragged.Routing, rows.Ragged.Tokens, rows.Ragged.Rows)
}

// ZoneAlign returns the alignment of the experts' zones.
func (p DispatchOp) ZoneAlign() int { return p.Align }

// Lower packs the rows that leave by destination, exchanges them, and puts the rows that
// arrived in expert order. Where no rows travel, because the rank has all experts or all
// ranks with experts have its tokens, Lower copies the rank's rows in expert order.
func (p DispatchOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	l := p.layer()
	axes, rows := out[0].Spec.Ragged.Tokens, out[0].Spec.Ragged.Rows
	routing := e.Eqn.In[len(e.Eqn.In)-1].Origin()
	payload := in[:len(in)-1]
	k := routing.Type.Shape[1]
	if !l.travels(e.Mesh, axes) {
		o, err := l.order(e, routing, axes, rows)
		if err != nil {
			return err
		}
		return p.place(e, out, payload, payload[0], o.from, o.choice)
	}
	if l.machines(e.Mesh, axes) > 1 {
		return p.dispatchThrough(e, routing, axes, out, payload)
	}
	came, err := l.sendInline(e, routing, axes, payload)
	if err != nil {
		return err
	}
	j, err := l.journey(e, routing, axes, rows)
	if err != nil {
		return err
	}
	if came.sent {
		from, err := came.through(e, j)
		if err != nil {
			return err
		}
		return p.place(e, out, payload, came.got, from, j.choice)
	}
	// A row has the weights of all choices of its token.
	types := rowTypes(bufTypes(payload), k)
	size := bytesOf(types)
	leave := j.out.Type.Len()
	send, got := e.Packed(leave, types...), e.Packed(j.room, types...)
	if err := packTokens(e, send, payload, j.out); err != nil {
		return err
	}
	l.exchangeRows(e, l.axis, got, send, j.sizes, size, leave, false)
	return p.place(e, out, payload, got, j.from, j.choice)
}

// packTokens emits the packing of the rows of tokens i32[rows], of which those behind the last are
// -1.
func packTokens(e *lowering.Emitter, send lowering.Buf, payload []lowering.Buf, tokens lowering.Buf) error {
	leave, size := send.Type.Shape[0], send.Type.Shape[1]
	return e.Emit(lowering.KernelSpec{Op: ops.EPPack, Out: []lowering.Buf{send}, In: append(payload[:len(payload):len(payload)], tokens), Kernel: func(a *exec.Args) error {
		n := len(a.In) - 1
		from := tokensIn(a.In[:n])
		to := inPacked(a.Out[0], from.values.size, from.values.size, from.weights.size)
		exec.Share(a, leave, movedGrain(size), rowMove{to: to, from: from, at: data[int32](a.In[n])})
		return nil
	}})
}

// tokensIn locates the payload of tokens. The weights of all choices of a token are one part.
func tokensIn(payload []array.Array) places {
	p := inArrays(payload, 1)
	if len(payload) == 2 {
		p.weights.stride *= payload[1].Type.Shape[1]
		p.weights.size = p.weights.stride
	}
	return p
}

// place emits the copies of rows x in expert order. from says which row of x each row of the zones is, and choice
// which of its weights it has. x is packed rows that have arrived, or the tokens, whose weights are an array of
// their own.
func (p DispatchOp) place(e *lowering.Emitter, out, payload []lowering.Buf, x, from, choice lowering.Buf) error {
	rows := out[0].Spec.Ragged
	counts, err := p.layer().counts(e, rows.Routing, rows.Tokens, rows.Rows)
	if err != nil {
		return err
	}
	in, own := []lowering.Buf{x, from, counts}, x.ID == payload[0].ID
	if len(payload) == 2 {
		in = append(in, choice)
		if own {
			in = append(in, payload[1])
		}
	}
	return e.Emit(lowering.KernelSpec{Op: ops.EPPlace, Out: out, In: in, Kernel: func(a *exec.Args) error {
		m := rowMove{to: inArrays(a.Out, 1), at: data[int32](a.In[1])}
		if len(a.Out) == 2 {
			m.choice = data[int32](a.In[3])
		}
		switch v := m.to.values.size; {
		case !own:
			m.from = inPacked(a.In[0], v, v, m.to.weights.size)
		case len(a.Out) == 2:
			w := a.In[4]
			m.from = inArrays([]array.Array{a.In[0], w}, w.Type.Shape[1])
		default:
			m.from = inArrays(a.In[:1], 1)
		}
		exec.Share(a, min(len(m.at), a.Out[0].Type.Shape[0]), movedGrain(m.to.values.size+m.to.weights.size), m)
		return nil
	}})
}

// exchangeRows emits the all_to_all over an axis, or a level of it, of rows of size bytes, of which
// a rank contributes at most `leave`, or on the way home takes back. sizes i32[2,members] is how many
// rows leave for each member and arrive from it, and back says that the rows are on the way home.
func (l epLayer) exchangeRows(e *lowering.Emitter, axis string, out, in, sizes lowering.Buf, size, leave int, back bool) {
	e.EmitCollective(lowering.CollectiveSpec{Op: ops.AllToAll, Axes: []string{axis}, DType: graph.U8, Bytes: int64(leave) * int64(size),
		Out: []lowering.Buf{out}, In: []lowering.Buf{in, sizes}, Travels: true,
		Exchange: func(ctx context.Context, g collective.Group, c collective.Call, a *exec.Args) error {
			sizes := data[int32](a.In[1])
			home, away := sizes[:len(sizes)/2], sizes[len(sizes)/2:]
			if back {
				home, away = away, home
			} else if arrive, room := sumOf(away), a.Out[0].Type.Shape[0]; arrive > room {
				return DispatchOp{}.NoRoom(arrive, room)
			}
			return g.AllToAll(ctx, c, parcelsOf(a, a.Out[0], away, size), parcelsOf(a, a.In[0], home, size))
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
