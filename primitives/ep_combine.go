package primitives

import (
	"context"
	"fmt"

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

// CombineOp returns rows in expert order to their tokens, adding the rows of a token in
// the order of its choices. It does not weight rows: multiply them by their weights
// before. A second argument has one value per row, returned to the row's pair.
// CombineOp is the transpose of DispatchOp.
type CombineOp struct {
	Experts  int
	Capacity int
	Receive  int
	Align    int
	Axis     string
	Exchange ep.Exchange
	Wire     graph.DType `graph:"wire"`
}

var _ primitive = CombineOp{}

// Combine returns [..,H]: for each token the sum of its rows dispatched by r, zero for a
// token without rows.
func Combine(r Prepared, rows *graph.Value) *graph.Value {
	graph.Helper()
	out := graph.Apply1(CombineOp(r.Op.dispatch()), rows, r.Value)
	return unflatten(out, r.chosen)
}

func (CombineOp) Name() string { return "ep_combine" }

func (p CombineOp) layer() epLayer { return DispatchOp(p).layer() }

func (p CombineOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if len(in) != 2 && len(in) != 3 {
		return nil, fmt.Errorf("%d arguments, want rows, routing or rows, row_weights, routing", len(in))
	}
	r := in[len(in)-1]
	if err := checkRouting(p.layer(), r); err != nil {
		return nil, err
	}
	n := p.layer().Rows(r.Shape[0] * r.Shape[1])
	x := in[0]
	if x.Rank() != 2 || x.Shape[0] != n {
		return nil, fmt.Errorf("rows are %s, want [%d, hidden] as ep_dispatch of this layer makes them", x, n)
	}
	if err := floating(x); err != nil {
		return nil, err
	}
	if p.Wire.IsF8() && x.Shape[1]%wireBlock != 0 {
		return nil, fmt.Errorf("wire=%s for rows of %d columns, want a multiple of %d", p.Wire, x.Shape[1], wireBlock)
	}
	out := []graph.Type{graph.T(x.DType, r.Shape[0], x.Shape[1])}
	if len(in) == 3 {
		w := in[1]
		if w.Rank() != 1 || w.Shape[0] != n {
			return nil, fmt.Errorf("row weights are %s, want [%d], one per row", w, n)
		}
		if err := floating(w); err != nil {
			return nil, err
		}
		out = append(out, graph.T(w.DType, r.Shape[0], r.Shape[1]))
	}
	return out, nil
}

// VJP dispatches the cotangents from the ranks on which the tokens were combined. The rows
// of both passes then have the same placement.
func (p CombineOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	args := make([]*graph.Value, 0, 3)
	for i, v := range e.Out {
		args = append(args, graph.Apply1(graph.PlaceLikeOp{}, vjp.Instantiate(ct[i], v), v))
	}
	out := graph.Apply(DispatchOp(p), append(args, e.In[len(e.In)-1])...)
	return append(out, nil), nil
}

func (p CombineOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	n := len(c.In)
	routing := c.Eqn.In[n-1].Origin()
	rows := c.In[0].Resolved()
	if rows.Ragged == nil && c.Flexible(0) {
		var err error
		if rows, err = p.constantRows(c); err != nil {
			return sharding.Decision{}, err
		}
	}
	if rows.Ragged == nil {
		return sharding.Decision{}, fmt.Errorf("the rows are not in expert order; give it what ep_dispatch made, after row-wise primitives and grouped_matmul")
	}
	if rows.Ragged.Routing != routing {
		return sharding.Decision{}, fmt.Errorf("the rows are in the order of another routing; combine them with the routing that dispatched them")
	}
	if d, ok := rows.Ragged.Layer.(DispatchOp); ok && d.layer() != p.layer() {
		return sharding.Decision{}, fmt.Errorf("%v, but the rows were dispatched with %v; give both the same", p.layer(), d.layer())
	}
	axes := rows.Ragged.Tokens
	if p.Wire.IsF8() && p.layer().travels(c.Mesh, axes) {
		columns := c.Eqn.In[0].Type.Shape[1]
		for _, at := range c.Mesh.Cuts(rows.At(1), columns) {
			if at%wireBlock != 0 {
				return sharding.Decision{}, fmt.Errorf("wire=%s for rows whose %d columns %v cuts at %d, within a block of %d that shares a scale; split them between such blocks, or not at all", p.Wire, columns, rows.At(1), at, wireBlock)
			}
		}
	}
	dec := sharding.Decision{
		In:  []sharding.Spec{rows},
		Out: []sharding.Spec{{Dims: [][]string{axes, rows.At(1)}}},
	}
	if n == 3 {
		dec.In = append(dec.In, sharding.Spec{Dims: [][]string{rows.At(0)}, Ragged: rows.Ragged})
		dec.Out = append(dec.Out, sharding.Spec{Dims: [][]string{axes, nil}})
	}
	dec.In = append(dec.In, sharding.Spec{Dims: [][]string{axes, nil, nil}})
	return dec, nil
}

// constantRows places rows that any rank can make, such as a cotangent of zeros, like the
// rows of c's routing.
func (p CombineOp) constantRows(c *sharding.Context) (sharding.Spec, error) {
	n := len(c.In)
	if n == 3 && c.In[1].Ragged != nil {
		return sharding.Spec{Dims: [][]string{c.In[1].At(0), nil}, Ragged: c.In[1].Ragged}, nil
	}
	routing := c.Eqn.In[n-1].Origin()
	if err := p.layer().checkLayer(routing); err != nil {
		return sharding.Spec{}, err
	}
	return p.layer().rowsSpec(c.Mesh, c.In[n-1].At(0), routing, DispatchOp(p)), nil
}

// Lower packs rows by destination, exchanges them, and adds the rows of each token in the
// order of its choices. lowerWhole combines rows of tokens whole over the experts' axis, and
// combineSums returns sums of rows.
func (p CombineOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	l := p.layer()
	routing := e.Eqn.In[len(e.Eqn.In)-1].Origin()
	payload := in[:len(in)-1]
	axes, rows := in[0].Spec.Ragged.Tokens, in[0].Spec.Ragged.Rows
	k := routing.Type.Shape[1]
	if l.travels(e.Mesh, axes) && l.exchange == ep.Sum {
		return l.combineSums(e, out, payload)
	}
	if !l.travels(e.Mesh, axes) {
		o, err := l.localOrder(e, routing, axes, rows)
		if err != nil {
			return err
		}
		if l.owners(e.Mesh) > 1 {
			return p.lowerWhole(e, out, payload, o.pairRow)
		}
		return combineLocal(e, out, payload, o.pairRow)
	}
	place, err := l.sendPlace(e, routing, axes)
	if err != nil {
		return err
	}
	recv, err := l.recvOrder(e, routing, axes, rows)
	if err != nil {
		return err
	}
	counts, err := l.counts(e, routing, axes, rows)
	if err != nil {
		return err
	}
	types, wire := wireTypes(e, payload, 1)
	size, travels := bytesOf(types), wireVariant(payload, wire)
	pairs := place.Type.Len()
	send, got := returnBuf(e, payload[0], rows, types), returnBuf(e, payload[0], pairs, types)
	if err := e.Emit(lowering.KernelSpec{Op: ops.EPPackRows | travels, Out: []lowering.Buf{send}, In: append(payload[:len(payload):len(payload)], recv, counts), Kernel: packRows(wire), Within: canAlias(payload, wire)}); err != nil {
		return err
	}
	if err := l.exchangePairs(e, routing, axes, got, send, size, pairs); err != nil {
		return err
	}
	return e.Emit(lowering.KernelSpec{Op: ops.EPSum | travels, Out: out, In: []lowering.Buf{got, place}, Kernel: func(a *exec.Args) error {
		combineRows(a, rowSum[float32]{from: returnedRows(a, a.In[0], 1), index: data[int32](a.In[1]), d: wire, k: k})
		return nil
	}})
}

// packRows returns the kernel packing rows for the return path, as type wire. The arguments are rows, weights
// if there are any, the row of each packed row, and the counts.
func packRows(wire graph.DType) exec.Kernel {
	return func(a *exec.Args) error {
		n := len(a.In) - 2
		d, width, used, recv := a.In[0].Type.DType, a.In[0].Type.Shape[1], total(a.In[n+1]), data[int32](a.In[n])
		if aliasesRows(a) {
			permuteRows(a, a.In[0].Bytes(), recv[:used], a.Out[0].Type.Shape[1])
			return nil
		}
		m := rowMove{to: packedResult(a, wireBytes(wire, width), 1, n == 2), from: arrayLayout(a.In[:n], 1), at: recv}
		if wire != d {
			convertRows(a, used, width, rowConversion[float32]{rowMove: m, d: d, as: wire})
			return nil
		}
		exec.Share(a, used, movedGrain(a.Out[0].Type.Shape[1]), m)
		return nil
	}
}

// packedResult locates the packed rows of the result, with the given bytes of values. If weights is set, rows end
// with k weights of the second argument's type.
func packedResult(a *exec.Args, values, k int, weights bool) rowLayout {
	size := 0
	if weights {
		size = a.In[1].Type.DType.Size()
	}
	return packedLayout(a.Out[0], values, a.Out[0].Type.Shape[a.Out[0].Type.Rank()-1]-k*size, size)
}

// returnedRows locates the packed rows of x. If there is a second result, rows end with k weights of its type.
func returnedRows(a *exec.Args, x array.Array, k int) rowLayout {
	size, stride := 0, x.Type.Shape[x.Type.Rank()-1]
	if len(a.Out) == 2 {
		size = a.Out[1].Type.DType.Size()
	}
	return packedLayout(x, stride-k*size, stride-k*size, size)
}

// combineRows writes the sum s of every token's rows to the first result, and the weight of every pair to the
// second, if there is one.
func combineRows(a *exec.Args, s rowSum[float32]) {
	t := a.Out[0].Type
	s.to, s.as, s.n = arrayLayout(a.Out, s.k), t.DType, t.Shape[1]
	sumPairs(a, t.Shape[0], s)
}

// combineLocal emits the sum of this rank's rows. pairRow is the row of each pair.
func combineLocal(e *lowering.Emitter, out, payload []lowering.Buf, pairRow lowering.Buf) error {
	k := pairRow.Type.Shape[1]
	return e.Emit(lowering.KernelSpec{Op: ops.EPSum, Out: out, In: append(payload[:len(payload):len(payload)], pairRow), Kernel: func(a *exec.Args) error {
		n := len(a.In) - 1
		combineRows(a, rowSum[float32]{from: arrayLayout(a.In[:n], 1), index: data[int32](a.In[n]), d: a.In[0].Type.DType, k: k})
		return nil
	}})
}

// exchangePairs emits the all_to_all returning one row of size bytes per pair. pairs is the
// number of pairs of a rank's tokens.
func (l epLayer) exchangePairs(e *lowering.Emitter, routing *graph.Value, axes []string, out, in lowering.Buf, size, pairs int) error {
	table, err := l.table(e, routing, axes)
	if err != nil {
		return err
	}
	experts := l.experts(e.Mesh)
	e.EmitCollective(lowering.CollectiveSpec{Op: ops.AllToAll, Axes: []string{l.axis}, DType: graph.U8, Bytes: int64(pairs) * int64(size),
		Out: []lowering.Buf{out}, In: []lowering.Buf{in, table}, Travels: true,
		Exchange: func(ctx context.Context, g collective.Group, c collective.Call, a *exec.Args) error {
			eg, member := l.group(a, axes, experts)
			kept, n := data[int32](a.In[1]), len(eg.Sources)
			dispatched, received := exec.Make[int32](a, n), exec.Make[int32](a, n)
			eg.SendCounts(dispatched, kept, member)
			eg.RecvCounts(received, kept, member)
			return g.AllToAll(ctx, c, memberSlicesOf(a, a.Out[0], dispatched, size), memberSlicesOf(a, a.In[0], received, size))
		}})
	return nil
}

// packedRow returns row j of packed rows.
func packedRow(rows array.Array, j int) []byte {
	size := rows.Type.Shape[rows.Type.Rank()-1]
	return rows.Bytes()[j*size : (j+1)*size]
}

func (CombineOp) Doc() graph.Doc {
	return graph.Doc{
		Args:    "rows f[S,H], row_weights f[S] (may be left out), routing i32[T,K,2]",
		Results: "tokens f[T,H], weights f[T,K] (with row_weights)",
		Formula: "tokens[t] = Σ_k rows[σ(t,k)] in the order of k, weights[t,k] = row_weights[σ(t,k)]; a pair that went nowhere contributes 0",
		Params:  "experts, capacity, receive, align, axis, exchange, wire: those of ep_prepare",
		Notes:   "Does not weight the rows. Each token's sum is formed where the token is, so it has the same bits on every mesh. One all_to_all over the experts' axis, of a row per pair or, with exchange=\"sum\", of the sum of each rank's rows for a token, which through machines are two, of the sum of each machine's rows between these; or, for tokens that are whole over it, one all_sum of a row per pair; with exchange=\"sum\" one all_sum of a row per token, and one of the weights if there are any: the result is then close to that of one rank. The transpose is ep_dispatch.",
	}
}
