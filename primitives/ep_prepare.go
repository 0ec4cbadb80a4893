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

// PrepareOp turns the choices of tokens into a routing: for every token and choice,
// the expert and the position in the expert's queue. Positions are assigned in the
// order of the global batch (token, then choice). Positions and drops are therefore
// the same on every mesh.
type PrepareOp struct {
	Experts int // 1 to ep.MaxExperts
	// Capacity is the number of (token, choice) pairs that an expert accepts over the
	// whole batch; 0 means no limit, dropping nothing.
	Capacity int
	// Receive is the number of rows that a rank accepts from the ranks of its group,
	// including itself, if tokens are split over Axis; 0 means no limit. A token has one
	// row on a rank, regardless of the number of its choices there. Rows are accepted in the
	// order of the batch, after the drops of Capacity, and pairs without a row are dropped.
	// These drops therefore depend on the splits of experts and tokens, and on nothing else.
	// If no rows travel, nothing is dropped.
	Receive int
	// Copies, if not 0, is the number of replicas over which the function Copies distributes
	// the pairs. Receive then limits the rows for the replicas of a rank. Copies applies it,
	// in the same order. Without Receive it need not be set.
	Copies int
	// Trap makes a demand above Capacity or Receive an error on every rank, before any
	// token moves, instead of dropping pairs.
	Trap bool
	// Align makes every expert's rows begin at a multiple of Align; 0 means no padding.
	Align int
	// Distinct promises that no token chooses an expert twice. A rank then has at most one
	// row per token and expert, which makes buffers smaller. It need not be set for choices
	// made by Route or TopK. A batch exceeding the buffers is an error.
	Distinct bool
	// Axis is the mesh axis splitting the experts; "" means "ep".
	Axis string
	// Exchange is the form in which experts' outputs return to their tokens.
	Exchange ep.Exchange
	// Wire is the element type of sums of ranks on the wire, with Exchange Sum: F32, BF16 or
	// F16. Zero means the type of the rows if tokens are split over Axis. If they are whole
	// over it, zero means F32, or F64 for tokens of f64.
	//
	// F8_E4M3 and F8_E5M2 apply to the return path of tokens split over Axis. Rows, or with
	// Exchange Sum their sums, are quantised as by QuantizeF8, in blocks of 128 columns, and
	// added unrounded. Each row or sum y then adds an error of at most |y|/16 + m/450000 to
	// its token, m being the largest size in y's block, or |y|/8 + m/7000000000 with F8_E5M2.
	// Rows need a multiple of 128 columns. Rows staying on their rank are not rounded, so for
	// whole tokens these types change nothing. Cotangents of tokens return in their own type.
	// CombineF8 sends cotangents of results to the experts in 8 bits.
	Wire graph.DType `graph:"wire"`
	// Label names the layer in errors.
	Label string
}

var _ primitive = PrepareOp{}

// CapacityFor returns factor times an even share of the batch's pairs, rounded up.
func (l PrepareOp) CapacityFor(tokens, choices int, factor float64) int {
	share := factor * float64(tokens) * float64(choices) / float64(max(l.Experts, 1))
	c := int(share)
	if float64(c) < share {
		c++
	}
	return c
}

// Prepared holds the results of ep_prepare, and the operation.
type Prepared struct {
	Op PrepareOp
	// Value is the routing, i32[T,K,2]: the expert and the position in its queue; -1, -1
	// for a pair that chooses no expert or is dropped.
	Value *graph.Value
	// Dropped is bool[T,K], marking the dropped pairs.
	Dropped *graph.Value
	// Counts and Padded are i32[E]: the number of rows of every expert over the whole
	// batch, exact and rounded up to the alignment. Demand i32[E] is the number of pairs
	// choosing the expert, before drops.
	Counts, Padded, Demand *graph.Value

	chosen *graph.Value // the choices, with the leading dimensions of the tokens
}

// Prepare returns the routing of tokens choosing the experts topk i32[..,K]; -1 means
// no expert. The batch consists of all leading dimensions.
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
		receive = 0 // applied by ep_copies
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

// Retain implements vjp.Retained: the gradient keeps the loads of experts, because recomputing them takes
// an all_sum.
func (PrepareOp) Retain() []int { return []int{2, 3, 4} }

func (PrepareOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (p PrepareOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Factors{
		In:  [][]int{{0, sharding.Whole}},
		Out: [][]int{{0, sharding.Whole, sharding.Whole}, {0, sharding.Whole}, {sharding.Whole}, {sharding.Whole}, {sharding.Whole}},
	})
}

// Lower gathers the choices of all ranks or, if tokens stay on their rank, only the counts,
// and assigns positions. The pairs remaining after drops are kept for the layer's dispatch.
func (p PrepareOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	l := p.layer()
	axes := in[0].Spec.At(0)
	if p.preparesLocally(e, axes) {
		return p.prepareLocal(e, axes, out, in[0])
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

// assign computes the results of ep_prepare, followed by the table of pairs kept by the experts'
// capacities. The arguments are the choices of this rank and the table of all choices.
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

// count emits the kernel counting this rank's pairs for each expert.
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

// gatherCounts returns i32[sources,E]: the number of pairs of each source for each expert.
func (p PrepareOp) gatherCounts(e *lowering.Emitter, axes []string, idx lowering.Buf) (lowering.Buf, error) {
	mine := e.Temp(graph.T(graph.I32, p.Experts))
	if err := p.count(e, axes, mine, idx); err != nil {
		return lowering.Buf{}, err
	}
	all := e.Temp(graph.T(graph.I32, e.Mesh.Parts(axes), p.Experts))
	e.AllGather(axes, all, mine)
	return all, nil
}

// gatherChoices returns the table of gatherCounts by gathering the choices of all ranks, which it
// keeps for the layer's dispatch.
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

// indices returns i32 or i64 indices [T,K] as int32. It returns an *ep.IndexError for the
// first index that does not fit.
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

// inBatch renumbers the token of an index error to its number in the global batch.
func inBatch(err error, first int) error {
	if err == nil {
		return nil // before ie is declared, because ie is allocated
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
