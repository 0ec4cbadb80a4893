package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// CopiesOp distributes the pairs of a routing over replicas of their experts. The expert of each
// replica is a value, so that one program serves all loads. Fields have the meaning and the
// values of the routing's PrepareOp: Experts does not count replicas. Receive, Trap and Label
// apply to the rows that ranks receive for their replicas.
type CopiesOp struct {
	Experts  int
	Capacity int
	Receive  int
	Align    int
	Axis     string
	Exchange ep.Exchange
	Wire     graph.DType `graph:"wire"`
	Trap     bool
	Label    string
}

var _ primitive = CopiesOp{}

// Copies returns the routing r with the pairs of each expert distributed over its replicas. copies
// i32[P], such as a result of ep.BalanceCopies, is the expert of each replica, naming every expert
// at least once. Pair n of an expert's queue goes to replica n mod m of the expert's m replicas.
//
// In the result, replicas replace experts: Op.Experts is P, Counts and Padded are i32[P], and
// GroupedMatMul requires the weights of P experts, which Gather(w, copies, 0) makes of weights
// w[E,..]. Drops, Demand and the layer's results are the same as without replicas. Gradients of w
// are sums over the replicas.
//
// If Op.Copies is the number of replicas, Op.Receive limits the rows that a rank receives for its
// replicas. These drops depend on the replicas and the mesh, and are included in Dropped.
func Copies(r Prepared, copies *graph.Value) Prepared {
	graph.Helper()
	n := copies.Dim(0)
	if r.Op.Copies != 0 && r.Op.Copies != n {
		graph.Fail("copies: %s, but the routing is for %d copies; give PrepareOp.Copies as many", copies.Type, r.Op.Copies)
	}
	if r.Op.Receive > 0 && r.Op.Copies == 0 {
		graph.Fail("copies: receive=%d has been applied to the rows that ranks receive without copies; give PrepareOp.Copies their number, %d", r.Op.Receive, n)
	}
	d := r.Op.dispatch()
	op := CopiesOp{d.Experts, d.Capacity, r.Op.Receive, d.Align, d.Axis, d.Exchange, d.Wire, false, ""}
	if op.Receive > 0 {
		op.Trap, op.Label = r.Op.Trap, r.Op.Label
	}
	out := graph.Apply(op, r.Value, copies)
	r.Op.Experts, r.Op.Copies = n, 0
	r.Value, r.Counts, r.Padded = out[0], out[1], out[2]
	if op.Receive > 0 {
		r.Dropped = Or(r.Dropped, out[3])
	}
	return r
}

func (CopiesOp) Name() string { return "ep_copies" }

// layer is the layer without replicas.
func (p CopiesOp) layer() epLayer {
	d := p.dispatch(p.Experts)
	d.Receive = 0
	return d.layer()
}

// dispatch returns the operation dispatching rows to the given number of replicas.
func (p CopiesOp) dispatch(copies int) DispatchOp {
	return DispatchOp{copies, p.Capacity, p.Receive, p.Align, p.Axis, p.Exchange, p.Wire}
}

// receiveLimit returns the operation limiting the rows that ranks receive for their replicas.
func (p CopiesOp) receiveLimit(copies int) PrepareOp {
	return PrepareOp{Experts: copies, Receive: p.Receive, Trap: p.Trap, Align: p.Align, Axis: p.Axis, Label: p.Label}
}

func (p CopiesOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if p.Trap && p.Receive == 0 {
		return nil, fmt.Errorf("trap without receive, want the rows that a rank accepts; ep_prepare traps what exceeds a capacity")
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
	out := []graph.Type{routing, copies, copies}
	if p.Receive > 0 {
		out = append(out, graph.T(graph.Bool, routing.Shape[:2]...))
	}
	return out, nil
}

func (CopiesOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (p CopiesOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	if err := p.layer().checkLayer(c.Eqn.In[0].Origin()); err != nil {
		return sharding.Decision{}, err
	}
	f := sharding.Factors{
		In:  [][]int{{0, sharding.Whole, sharding.Whole}, {sharding.Whole}},
		Out: [][]int{{0, sharding.Whole, sharding.Whole}, {sharding.Whole}, {sharding.Whole}},
	}
	if p.Receive > 0 {
		f.Out = append(f.Out, []int{0, sharding.Whole})
	}
	return c.Place(f)
}

// Lower distributes this rank's pairs and the table of pairs over replicas and, if rows travel, the
// choices of all ranks. Table and choices are kept for the layer's dispatch. Replicas need no
// exchange of their own.
func (p CopiesOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	experts, routing, axes := p.layer(), e.Eqn.In[0].Origin(), out[0].Spec.At(0)
	copies := p.dispatch(in[1].Type.Len()).layer()
	table, err := experts.table(e, routing, axes)
	if err != nil {
		return err
	}
	memo := func(name string, t graph.Type) (lowering.Buf, error) {
		return e.Memo(copies.key(e.Eqn.Out[0], axes, name), func() (lowering.Buf, error) { return e.Temp(t), nil })
	}
	spread, err := memo("table", graph.T(graph.I32, table.Type.Shape[0], copies.Experts))
	if err != nil {
		return err
	}
	all := lowering.Buf{}
	if experts.travels(e.Mesh, axes) {
		if all, err = p.replicaChoices(e, routing, axes, in[1]); err != nil {
			return err
		}
		if copies.limits(e.Mesh, axes) {
			if all, err = p.receiveLimit(copies.Experts).receive(e, axes, all); err != nil {
				return err
			}
		}
		if _, err := e.Memo(copies.key(e.Eqn.Out[0], axes, "chosen"), func() (lowering.Buf, error) { return all, nil }); err != nil {
			return err
		}
	}
	tokens, limits, args := e.Mesh.Cuts(axes, routing.Type.Shape[0]), copies.limits(e.Mesh, axes), []lowering.Buf{in[0], in[1], table}
	if limits {
		args = append(args, all)
	}
	return e.Emit(lowering.KernelSpec{Op: ops.EPCopies, Out: append(out, spread), In: args, Kernel: func(a *exec.Args) error {
		x, err := p.index(a, 1)
		if err != nil {
			return err
		}
		kept, spread := data[int32](a.In[2]), data[int32](a.Out[len(a.Out)-1])
		next := exec.Make[int32](a, p.Experts)
		ep.Before(next, kept, a.Index(axes))
		x.Routing(data[int32](a.Out[0]), next, data[int32](a.In[0]))
		if p.Receive > 0 {
			clear(data[bool](a.Out[3]))
		}
		if limits {
			return p.receiveLimit(len(x.Order)).accept(a.Out[0], a.Out[3], a.Out[1], a.Out[2], a.Out[4], a.In[3], tokens, a.Index(axes))
		}
		x.Table(spread, kept)
		counts, padded := data[int32](a.Out[1]), data[int32](a.Out[2])
		ep.Totals(counts, padded, spread, 0)
		ep.Padded(padded, counts, p.Align)
		return nil
	}})
}

// replicaChoices returns i32[T,K] of the whole batch: the replica of each kept pair, -1 for others.
func (p CopiesOp) replicaChoices(e *lowering.Emitter, routing *graph.Value, axes []string, copies lowering.Buf) (lowering.Buf, error) {
	chosen, err := p.layer().chosen(e, routing, axes)
	if err != nil {
		return chosen, err
	}
	all := e.Temp(chosen.Type)
	return all, e.Emit(lowering.KernelSpec{Op: ops.EPCopyChoices, Out: []lowering.Buf{all}, In: []lowering.Buf{chosen, copies}, Kernel: func(a *exec.Args) error {
		x, err := p.index(a, 1)
		if err == nil {
			x.Choices(data[int32](a.Out[0]), exec.Make[int32](a, p.Experts), data[int32](a.In[0]))
		}
		return err
	}})
}

// index returns the index of the replicas in argument i. All ranks have the same replicas and
// return the same error.
func (p CopiesOp) index(a *exec.Args, i int) (ep.CopyIndex, error) {
	copies := ep.Copies(data[int32](a.In[i]))
	x := ep.CopyIndex{First: exec.Make[int32](a, p.Experts+1), Order: exec.Make[int32](a, len(copies))}
	if err := copies.Index(x.First, x.Order); err != nil {
		return x, &exec.AgreedError{Err: err}
	}
	return x, nil
}

func (CopiesOp) Doc() graph.Doc {
	return graph.Doc{
		Args:    "routing i32[T,K,2], copies i32[P], the expert of each copy",
		Results: "routing i32[T,K,2], counts i32[P], padded i32[P], dropped bool[T,K] (with receive)",
		Formula: "routing'[t,k] = (c, ⌊q/m⌋) for routing[t,k] = (e, q): c is the (q mod m)-th of the m copies of e in the order of their numbers; (-1,-1) stays",
		Params:  "experts, capacity, align, axis, exchange, wire: those of the ep_prepare that made the routing; receive: rows that a rank accepts for its copies, in the order of the batch, where the ep_prepare has copies=P, 0 for no limit; trap: more rows are an error on every rank; label: names the layer in errors",
		Notes:   "Behind it ep_dispatch, ep_combine and the products have experts=P. The capacity has dropped pairs before, by the queues of experts, so that copies change neither drops nor results, unless ranks accept a limited number of rows. An expert without a copy is an error of the run, on every rank. Exchanges nothing, but needs the choices of all ranks before rows travel. Weights of the copies are gather(weights, copies); the gradient adds up the copies of each expert.",
	}
}
