package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// CopiesOp spreads the pairs of a routing among copies of their experts. Which expert each
// copy is of is a value, so that one program serves whatever the loads turn out to be. The
// fields are those of DispatchOp: of the routing that is spread, so Experts does not count
// copies.
type CopiesOp DispatchOp

var _ primitive = CopiesOp{}

// Copies returns the routing r with the pairs of each expert spread among its copies: copies
// i32[P], such as ep.BalanceCopies returns, is the expert of each copy, and names every expert
// at least once. Pair n of an expert's queue goes to copy n mod m of the expert's m copies.
//
// In what it returns the copies are the experts: Op.Experts is P, Counts and Padded are i32[P],
// and GroupedMatMul wants the weights of P experts. Those are Gather(w, copies, 0) of weights
// w[E,..]. What is dropped, Demand, and the results of the layer are the same as without
// copies; gradients of w are sums over the copies. Op.Receive must be 0.
func Copies(r Prepared, copies *graph.Value) Prepared {
	graph.Helper()
	out := graph.Apply(CopiesOp(r.Op.dispatch()), r.Value, copies)
	r.Op.Experts = copies.Dim(0)
	r.Value, r.Counts, r.Padded = out[0], out[1], out[2]
	return r
}

func (CopiesOp) Name() string { return "ep_copies" }

// layer is the layer whose routing is spread, without copies.
func (p CopiesOp) layer() epLayer { return DispatchOp(p).layer() }

// dispatch returns the operation that dispatches rows to that many copies.
func (p CopiesOp) dispatch(copies int) DispatchOp {
	p.Experts = copies
	return DispatchOp(p)
}

func (p CopiesOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if p.Receive > 0 {
		return nil, fmt.Errorf("receive=%d with copies: ep_prepare would limit the rows of ranks by the experts that they have without copies; leave it out", p.Receive)
	}
	routing, copies := in[0], in[1]
	if err := checkRouting(p.layer(), routing); err != nil {
		return nil, err
	}
	if copies.DType != graph.I32 || copies.Rank() != 1 {
		return nil, fmt.Errorf("copies are %s, want i32[copies], the expert of each copy", copies)
	}
	if copies.Shape[0] < p.Experts {
		return nil, fmt.Errorf("%d copies of %d experts, want at least one of each", copies.Shape[0], p.Experts)
	}
	if err := p.dispatch(copies.Shape[0]).layer().check(routing.Shape[0], routing.Shape[1]); err != nil {
		return nil, err
	}
	return []graph.Type{routing, copies, copies}, nil
}

func (CopiesOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (p CopiesOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	if err := p.layer().madeFor(c.Eqn.In[0].Origin()); err != nil {
		return sharding.Decision{}, err
	}
	return c.Place(sharding.Factors{
		In:  [][]int{{0, sharding.Whole, sharding.Whole}, {sharding.Whole}},
		Out: [][]int{{0, sharding.Whole, sharding.Whole}, {sharding.Whole}, {sharding.Whole}},
	})
}

// Lower spreads this rank's pairs and the table of pairs, which is kept for the layer's
// dispatch, and so are the choices of all ranks if rows travel. It exchanges nothing more than
// the routing without copies needs.
func (p CopiesOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	experts, routing, axes := p.layer(), e.Eqn.In[0].Origin(), out[0].Spec.At(0)
	copies := p.dispatch(in[1].Type.Len()).layer()
	table, err := experts.table(e, routing, axes)
	if err != nil {
		return err
	}
	memo := func(what string, t graph.Type) (lowering.Buf, error) {
		return e.Memo(copies.key(e.Eqn.Out[0], axes, what), func() (lowering.Buf, error) { return e.Temp(t), nil })
	}
	spread, err := memo("table", graph.T(graph.I32, table.Type.Shape[0], copies.Experts))
	if err != nil {
		return err
	}
	if err := e.Emit(lowering.KernelSpec{Name: "ep_copies", Out: append(out, spread), In: []lowering.Buf{in[0], in[1], table}, Kernel: func(a *exec.Args) error {
		x, err := p.index(a, 1)
		if err != nil {
			return err
		}
		kept, spread := data[int32](a.In[2]), data[int32](a.Out[3])
		next := exec.Make[int32](a, p.Experts)
		ep.Before(next, kept, a.Index(axes))
		x.Routing(data[int32](a.Out[0]), next, data[int32](a.In[0]))
		x.Table(spread, kept)
		counts, padded := data[int32](a.Out[1]), data[int32](a.Out[2])
		ep.Totals(counts, padded, spread, 0)
		ep.Padded(padded, counts, p.Align)
		return nil
	}}); err != nil || !experts.travels(e.Mesh, axes) {
		return err
	}
	chosen, err := experts.chosen(e, routing, axes)
	if err != nil {
		return err
	}
	all, err := memo("chosen", chosen.Type)
	if err != nil {
		return err
	}
	return e.Emit(lowering.KernelSpec{Name: "ep_copy_choices", Out: []lowering.Buf{all}, In: []lowering.Buf{chosen, in[1]}, Kernel: func(a *exec.Args) error {
		x, err := p.index(a, 1)
		if err == nil {
			x.Choices(data[int32](a.Out[0]), exec.Make[int32](a, p.Experts), data[int32](a.In[0]))
		}
		return err
	}})
}

// index returns the index of the copies in argument i. All ranks have the same copies, and so
// the same error.
func (p CopiesOp) index(a *exec.Args, i int) (ep.CopyIndex, error) {
	copies := ep.Copies(data[int32](a.In[i]))
	x := ep.CopyIndex{First: exec.Make[int32](a, p.Experts+1), Order: exec.Make[int32](a, len(copies))}
	if err := copies.Index(x.First, x.Order); err != nil {
		return x, &exec.Agreed{Err: err}
	}
	return x, nil
}

func (CopiesOp) Doc() graph.Doc {
	return graph.Doc{
		Args:    "routing i32[T,K,2], copies i32[P], the expert of each copy",
		Results: "routing i32[T,K,2], counts i32[P], padded i32[P]",
		Formula: "routing'[t,k] = (c, ⌊q/m⌋) for routing[t,k] = (e, q): c is the (q mod m)-th of the m copies of e in the order of their numbers; (-1,-1) stays",
		Params:  "experts, capacity, receive, align, axis, exchange, wire: those of the ep_prepare that made the routing, of which receive must be 0; ep_dispatch, ep_combine and the products have experts=P",
		Notes:   "The capacity has dropped pairs before, by the queues of experts, so that copies change neither drops nor results. An expert without a copy is an error of the run, on every rank. Exchanges nothing, but needs the choices of all ranks before rows travel. Weights of the copies are gather(weights, copies); the gradient adds up the copies of each expert.",
	}
}
