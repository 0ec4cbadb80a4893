package primitives

import (
	"errors"
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// PrepareOp turns the experts that tokens choose into a routing: a value that
// says, for every token and choice, the expert and the place in the expert's
// queue. Places are assigned in the order of the global batch (token, then
// choice). Places and drops are therefore the same on every mesh.
type PrepareOp struct {
	Experts int // 1 to ep.MaxExperts
	// Capacity is the number of (token, choice) pairs that an expert accepts over the
	// whole batch; 0 means no limit, so that nothing is dropped.
	Capacity int
	// Receive is the number of rows that a rank accepts from the ranks of its group, itself
	// included, where tokens are split over Axis; 0 means no limit. A token's row is one,
	// however many of the token's choices the rank has experts for. Rows are accepted in the
	// order of the batch, after the drops of Capacity, and pairs without a row are dropped.
	// What is dropped therefore depends on how the mesh splits experts and tokens, and on
	// nothing else. Where no rows travel, nothing is dropped.
	Receive int
	// Copies, if it is not 0, is among how many copies of the experts the function Copies
	// spreads the pairs. Receive then counts the rows for the copies that a rank has, and is
	// applied by Copies, in the same order. Without Receive it need not be set.
	Copies int
	// Trap makes a demand above Capacity or Receive an error on every rank, before any
	// token moves, instead of dropping pairs.
	Trap bool
	// Align makes every expert's rows begin at a multiple of Align; 0 means no padding.
	Align int
	// Distinct says that no token chooses an expert twice, so that a rank needs no room for
	// more rows of a token than it has experts. It need not be set for choices that Route or
	// TopK made. A batch that does not fit in the room is an error.
	Distinct bool
	// Axis is the mesh axis that splits the experts; "" means "ep".
	Axis string
	// Exchange is how rows come home from the experts.
	Exchange ep.Exchange
	// Wire is the element type in which sums of ranks travel, with Exchange Sum: F32, BF16 or
	// F16. Zero means F32 for tokens that are whole over Axis, or F64 for those of f64, and
	// the type of the rows for tokens that are split over it.
	//
	// With F8_E4M3 or F8_E5M2, rows that travel home to tokens which are split over Axis, or
	// with Exchange Sum their sums, are quantised as QuantizeF8 does, in blocks of 128 columns,
	// and added up unrounded. A result is then off by at most |y|/16 + m/450000 for each row or
	// sum y that belongs to it, m being the largest size in y's block, or |y|/8 + m/7000000000
	// with F8_E5M2. Rows need a multiple of 128 columns. What does not travel is not rounded, and
	// for whole tokens this means nothing. The cotangents of tokens, which come home too, travel
	// in their own type. CombineF8 has the cotangents of results travel to the experts in 8 bits.
	Wire graph.DType
	// Label names the layer in errors.
	Label string
}

var _ primitive = PrepareOp{}

// CapacityFor returns the capacity that is factor times an even share of the
// batch's pairs, rounded up.
func (l PrepareOp) CapacityFor(tokens, choices int, factor float64) int {
	share := factor * float64(tokens) * float64(choices) / float64(max(l.Experts, 1))
	c := int(share)
	if float64(c) < share {
		c++
	}
	return c
}

// Prepared is what Prepare returns: the results of ep_prepare, and the operation.
type Prepared struct {
	Op PrepareOp
	// Value is the routing, i32[T,K,2]: the expert and the place in its queue; -1, -1
	// for a pair that chooses no expert or is dropped.
	Value *graph.Value
	// Dropped is bool[T,K]: true for the pairs that the capacity dropped.
	Dropped *graph.Value
	// Counts and Padded are i32[E]: the number of rows of every expert over the whole
	// batch, exact and rounded up to the alignment. Demand i32[E] is the number of pairs
	// that chose the expert, before drops.
	Counts, Padded, Demand *graph.Value

	chosen *graph.Value // the choices, with the leading dimensions of the tokens
}

// Prepare returns the routing of tokens that choose the experts topk i32[..,K]; -1
// means no expert. All leading dimensions together are the batch.
func Prepare(l PrepareOp, topk *graph.Value) Prepared {
	graph.Helper()
	if topk.Rank() < 2 {
		graph.Fail("prepare: experts chosen are %s, want i32[tokens, choices]", topk.Type)
	}
	tokens := flatten(topk)
	if made := tokens.Def; made != nil {
		_, router := made.Prim.(RouteOp)
		_, best := made.Prim.(topKOp)
		if n := made.In[0].Dim(-1); router && n != l.Experts || best && n > l.Experts {
			graph.Fail("prepare: %d experts, but the choices are made of logits %s for %d; give PrepareOp.Experts as many", l.Experts, made.In[0].Type, n)
		}
	}
	out := graph.Apply(l, tokens)
	return Prepared{l, out[0], out[1], out[2], out[3], out[4], topk}
}

// weights stops the trace unless w has a matrix for every expert.
func (r Prepared) weights(w *graph.Value) {
	graph.Helper()
	if w.Rank() == 3 && w.Dim(0) != r.Op.Experts {
		graph.Fail("grouped_matmul: weights %s of %d experts, but tokens were routed to %d; give PrepareOp.Experts as many", w.Type, w.Dim(0), r.Op.Experts)
	}
}

func (PrepareOp) Name() string { return "ep_prepare" }

func (p PrepareOp) layer() epLayer { return p.dispatch().layer() }

func (p PrepareOp) dispatch() DispatchOp {
	receive := p.Receive
	if p.Copies > 0 {
		receive = 0 // until pairs are spread among copies
	}
	return DispatchOp{p.Experts, p.Capacity, receive, p.Align, p.Axis, p.Exchange, p.Wire}
}

func (p PrepareOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	x := in[0]
	if x.Rank() != 2 || x.DType != graph.I32 && x.DType != graph.I64 {
		return nil, fmt.Errorf("experts chosen are %s, want i32[tokens, choices] or i64", x)
	}
	if err := p.layer().check(x.Shape[0], x.Shape[1]); err != nil {
		return nil, err
	}
	if p.Copies != 0 && p.Copies < p.Experts {
		return nil, fmt.Errorf("copies=%d of %d experts, want at least one of each, or 0", p.Copies, p.Experts)
	}
	if p.Trap && p.Capacity == 0 && p.Receive == 0 {
		return nil, errors.New("trap without a capacity; set capacity to the pairs that an expert accepts, or receive to the rows that a rank accepts")
	}
	t, k := x.Shape[0], x.Shape[1]
	e := graph.T(graph.I32, p.Experts)
	return []graph.Type{graph.T(graph.I32, t, k, 2), graph.T(graph.Bool, t, k), e, e, e}, nil
}

// Retain implements vjp.Retained: the loads of experts, a number for each, are a sum over the ranks.
func (PrepareOp) Retain() []int { return []int{2, 3, 4} }

func (PrepareOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (p PrepareOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Factors{
		In:  [][]int{{0, sharding.Whole}},
		Out: [][]int{{0, sharding.Whole, sharding.Whole}, {0, sharding.Whole}, {sharding.Whole}, {sharding.Whole}, {sharding.Whole}},
	})
}

// Lower gathers the choices of all ranks, or only their numbers where tokens stay on their
// rank, and assigns places from them. What is left after drops is kept for the layer's
// dispatch.
func (p PrepareOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	l := p.layer()
	axes := in[0].Spec.At(0)
	if p.alone(e, axes) {
		return p.prepareAlone(e, axes, out, in[0])
	}
	gather := p.gatherCounts
	if l.travels(e.Mesh, axes) {
		gather = p.gatherChoices
	}
	all, err := gather(e, axes, in[0])
	if err != nil {
		return err
	}
	kept, err := e.Memo(l.key(e.Eqn.Out[0], axes, "table"), func() (lowering.Buf, error) { return e.Temp(all.Type), nil })
	if err != nil {
		return err
	}
	out = append(out, kept)
	if l.limits(e.Mesh, axes) {
		chosen, err := l.chosen(e, e.Eqn.Out[0], axes)
		if err != nil {
			return err
		}
		return p.prepareRows(e, axes, out, in[0], all, chosen)
	}
	return e.Emit(lowering.KernelSpec{Op: ops.EPPrepare, Out: out, In: []lowering.Buf{in[0], all}, Kernel: func(a *exec.Args) error {
		return p.assign(a, axes)
	}})
}

// assign computes the results of ep_prepare, and behind these the table of what the experts'
// capacities keep. The arguments are the choices of this rank and the table of all choices.
func (p PrepareOp) assign(a *exec.Args, axes []string) error {
	table := data[int32](a.In[1])
	demand := data[int32](a.Out[4])
	ep.Totals(data[int32](a.Out[2]), demand, table, p.Capacity)
	if err := p.layer().Fits(demand); err != nil && p.Trap {
		return &exec.AgreedError{Err: p.named(err)}
	}
	ep.Padded(data[int32](a.Out[3]), data[int32](a.Out[2]), p.Align)
	next := exec.Make[int32](a, p.Experts)
	ep.Before(next, table, a.Index(axes))
	idx, err := indices(a.In[0], p.Experts)
	if err != nil {
		return err
	}
	ep.Assign(data[int32](a.Out[0]), data[bool](a.Out[1]), next, idx, p.Capacity)
	ep.Kept(data[int32](a.Out[5]), table, p.Experts, p.Capacity)
	return nil
}

// count emits the count of the pairs of this rank that choose each expert.
func (p PrepareOp) count(e *lowering.Emitter, axes []string, counts, idx lowering.Buf) error {
	tokens := e.Eqn.In[0].Type.Shape[0]
	return e.Emit(lowering.KernelSpec{Op: ops.EPCount, Out: []lowering.Buf{counts}, In: []lowering.Buf{idx}, Kernel: func(a *exec.Args) error {
		clear(data[int32](a.Out[0]))
		idx, err := indices(a.In[0], p.Experts)
		if err == nil {
			err = ep.Count(data[int32](a.Out[0]), idx, a.In[0].Type.Shape[1])
		}
		first, _ := a.Part(axes, tokens)
		return inBatch(err, first)
	}})
}

// gatherCounts returns i32[sources,E]: how many pairs of each source choose each expert.
func (p PrepareOp) gatherCounts(e *lowering.Emitter, axes []string, idx lowering.Buf) (lowering.Buf, error) {
	mine := e.Temp(graph.T(graph.I32, p.Experts))
	if err := p.count(e, axes, mine, idx); err != nil {
		return lowering.Buf{}, err
	}
	all := e.Temp(graph.T(graph.I32, e.Mesh.Parts(axes), p.Experts))
	e.AllGather(axes, all, mine)
	return all, nil
}

// gatherChoices is gatherCounts by way of the choices of all ranks, which it keeps for the
// layer's dispatch.
func (p PrepareOp) gatherChoices(e *lowering.Emitter, axes []string, idx lowering.Buf) (lowering.Buf, error) {
	l, all := p.layer(), e.Eqn.In[0].Type.With(graph.I32)
	mine, tokens := e.Placed(all, idx.Spec), all.Shape[0]
	if err := e.Emit(lowering.KernelSpec{Op: ops.EPChoices, Out: []lowering.Buf{mine}, In: []lowering.Buf{idx}, Kernel: func(a *exec.Args) error {
		idx, err := indices(a.In[0], p.Experts)
		if err == nil {
			copy(data[int32](a.Out[0]), idx)
			err = ep.Count(exec.Make[int32](a, p.Experts), idx, a.In[0].Type.Shape[1])
		}
		first, _ := a.Part(axes, tokens)
		return inBatch(err, first)
	}}); err != nil {
		return lowering.Buf{}, err
	}
	chosen, err := e.Reshard(all, mine, sharding.Spec{})
	if err != nil {
		return chosen, err
	}
	table, err := l.countChoices(e, chosen, axes)
	if err != nil {
		return table, err
	}
	_, err = e.Memo(l.key(e.Eqn.Out[0], axes, "chosen"), func() (lowering.Buf, error) {
		kept, err := l.keepChoices(e, chosen)
		if err != nil || !l.limits(e.Mesh, axes) {
			return kept, err
		}
		return p.receive(e, axes, kept)
	})
	return table, err
}

func (p PrepareOp) named(err error) error {
	if p.Label == "" {
		return err
	}
	return fmt.Errorf("layer %s: %w", p.Label, err)
}

// indices returns i32 or i64 indices [T,K] as int32. If one does not fit it returns
// an *ep.IndexError about the first of these.
func indices(a array.Array, experts int) ([]int32, error) {
	if a.Type.DType == graph.I32 {
		return data[int32](a), nil
	}
	wide, k := data[int64](a), a.Type.Shape[1]
	out := make([]int32, len(wide))
	for i, x := range wide {
		out[i] = int32(x)
		if int64(out[i]) != x {
			return nil, &ep.IndexError{Token: i / k, Choice: i % k, Index: int(x), Experts: experts}
		}
	}
	return out, nil
}

// inBatch makes an index error name the token by its number in the global batch.
func inBatch(err error, first int) error {
	if err == nil {
		return nil // before ie is declared, since ie is allocated
	}
	var ie *ep.IndexError
	if errors.As(err, &ie) {
		ie.Token += first
	}
	return err
}

func (PrepareOp) Doc() graph.Doc {
	return graph.Doc{
		Args:    "topk_idx i32[T,K] or i64[T,K], -1 for none",
		Results: "routing i32[T,K,2], dropped bool[T,K], counts i32[E], padded i32[E], demand i32[E]",
		Formula: "routing[t,k] = (e, #{(t',k') before (t,k): topk_idx[t',k'] = e}), or (-1,-1) for none, for queue ≥ capacity and for rows behind the first `receive` of a rank",
		Params:  "experts: E; capacity: pairs that an expert accepts over the whole batch, 0 for no limit; receive: rows that a rank accepts where tokens are split over the axis, in the order of the batch, 0 for no limit; copies: the copies among which ep_copies spreads pairs and then applies receive, 0 if receive is applied here; trap: a larger demand is an error, on every rank and before tokens move; align: rows to which padded rounds up; distinct: no token chooses an expert twice, which is known of what route and top_k choose; axis: mesh axis of the experts, \"ep\" if empty; exchange: \"sum\" adds a rank's rows of a token before they travel home, otherwise a row per pair does; wire: element type in which such sums travel, if not given f32 for tokens that are whole over the axis and that of the rows for others; f8_e4m3 or f8_e5m2 for rows or sums that travel home in 8 bits with a scale for each block of 128; label: names the layer in errors",
		Notes:   "Queues follow the order of the global batch, so places and drops are the same on every mesh. Where the tokens are split over ranks, one all_gather: of the choices if rows travel, which they do where the tokens are split over the axis of the experts, otherwise of E counts per rank. There is none, and choices travel with the rows, if the mesh has no machines along the axis, no pair can be dropped, nothing but the layer's own operations uses the routing, and n-1 rows with k+1 numbers of 4 bytes behind each take no more than min(n,k) rows without, n being the ranks of the axis and k the choices of a token, or only 16384 bytes more for all tokens of a rank; counts, padded and demand, where they are used, are then one all_sum of E counts, for which rows do not wait.",
	}
}
