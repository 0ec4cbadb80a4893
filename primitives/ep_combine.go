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

// CombineOp brings rows in expert order back to their tokens. The rows of a token
// are added in the order of its choices. Combine does not weight rows: multiply
// them by their weights before. With a second argument of one value per row, it
// brings these values back to their pairs. It is the transpose of DispatchOp.
type CombineOp struct {
	Experts  int
	Capacity int
	Receive  int
	Align    int
	Axis     string
	Exchange ep.Exchange
	Wire     graph.DType
}

var _ primitive = CombineOp{}

// Combine returns [..,H]: for each token the sum of its rows, which r has
// dispatched; zero for a token without rows.
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

// VJP dispatches the cotangents from the ranks on which the tokens were combined, so
// that the rows of both passes are placed alike.
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

// constantRows returns the placement of rows that any rank can make, such as a
// cotangent of zeros: that of the rows of c's routing.
func (p CombineOp) constantRows(c *sharding.Context) (sharding.Spec, error) {
	n := len(c.In)
	if n == 3 && c.In[1].Ragged != nil {
		return sharding.Spec{Dims: [][]string{c.In[1].At(0), nil}, Ragged: c.In[1].Ragged}, nil
	}
	routing := c.Eqn.In[n-1].Origin()
	if err := p.layer().madeFor(routing); err != nil {
		return sharding.Spec{}, err
	}
	return p.layer().rowsSpec(c.Mesh, c.In[n-1].At(0), routing, DispatchOp(p)), nil
}

// Lower packs the rows by the rank that they return to, exchanges them, and adds
// the rows of each token in the order of its choices. Rows of tokens that are whole over
// the experts' axis come together as lowerWhole says; sums of rows that travel, as
// combineSums says.
func (p CombineOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	l := p.layer()
	routing := e.Eqn.In[len(e.Eqn.In)-1].Origin()
	payload := in[:len(in)-1]
	axes, rows := in[0].Spec.Ragged.Tokens, in[0].Spec.Ragged.Rows
	k := routing.Type.Shape[1]
	if l.travels(e.Mesh, axes) && l.home == ep.Sum {
		return l.combineSums(e, out, payload)
	}
	place, err := l.sendPlace(e, routing, axes)
	if err != nil {
		return err
	}
	recv, err := l.recvOrder(e, routing, axes, rows)
	if err != nil {
		return err
	}
	if !l.travels(e.Mesh, axes) {
		if l.owners(e.Mesh) > 1 {
			return p.lowerWhole(e, out, payload, place, recv)
		}
		return sumHere(e, out, payload, place, recv)
	}
	counts, err := l.counts(e, routing, axes, rows)
	if err != nil {
		return err
	}
	types, wire := wireTypes(e, payload, 1)
	size, pack, travels := bytesOf(types), packRows, ops.None
	if wire != payload[0].Type.DType {
		pack, travels = packRowsAs(wire), ops.Wire
	}
	pairs := place.Type.Len()
	send, got := homeward(e, payload[0], rows, types), homeward(e, payload[0], pairs, types)
	if err := e.Emit(lowering.KernelSpec{Op: ops.EPPackRows | travels, Out: []lowering.Buf{send}, In: append(payload[:len(payload):len(payload)], recv, counts), Kernel: pack, Within: fitsZones(payload, wire)}); err != nil {
		return err
	}
	if err := l.exchangePairs(e, routing, axes, got, send, size, pairs); err != nil {
		return err
	}
	return e.Emit(lowering.KernelSpec{Op: ops.EPSum | travels, Out: out, In: []lowering.Buf{got, place}, Kernel: func(a *exec.Args) error {
		sumHome(a, k, wire, rowArrived)
		return nil
	}})
}

// packRows is the kernel that packs the rows that return to their tokens. The arguments are
// rows, weights if they travel along, the row of each place and the numbers of rows.
func packRows(a *exec.Args) error {
	n, size := len(a.In)-2, a.Out[0].Type.Shape[1]
	if overZones(a) {
		permuteRows(a, a.In[0].Bytes(), data[int32](a.In[n])[:total(a.In[n+1])], size)
		return nil
	}
	exec.Share(a, total(a.In[n+1]), movedGrain(size), rowsPacked{a.Out[0].Bytes(), a.In[:n], data[int32](a.In[n]), size})
	return nil
}

// packRowsAs is packRows of values that travel as type wire.
func packRowsAs(wire graph.DType) exec.Kernel {
	return func(a *exec.Args) error {
		n, columns := len(a.In)-2, a.In[0].Type.Shape[1]
		exec.Share(a, total(a.In[n+1]), 1+cheap/(1+columns), rowsConverted{a.Out[0], a.In[:n], data[int32](a.In[n]), wire, exec.RoomsOf[float32](a, columns)})
		return nil
	}
}

// sumHere emits the sum of the rows that lie on this rank.
func sumHere(e *lowering.Emitter, out, payload []lowering.Buf, place, recv lowering.Buf) error {
	k := place.Type.Shape[1]
	return e.Emit(lowering.KernelSpec{Op: ops.EPSum, Out: out, In: append(payload[:len(payload):len(payload)], place, recv), Kernel: func(a *exec.Args) error {
		sumHome(a, k, a.In[0].Type.DType, rowHere)
		return nil
	}})
}

// rowHere is the pairRow of rows that lie on this rank. The arguments are the rows in
// expert order, their weights if weights travel along, the place of each pair and the
// row of each place.
func rowHere(a *exec.Args, pair int) (x, w []byte) {
	n := len(a.In) - 2
	j := data[int32](a.In[n])[pair]
	if j < 0 {
		return nil, nil
	}
	i := int(data[int32](a.In[n+1])[j])
	x = entry(a.In[0], i)
	if n == 2 {
		w = element(a.In[1], i)
	}
	return x, w
}

// rowArrived is the pairRow of rows that have been exchanged. The arguments are the packed
// rows and the place of each pair among them; without places there is a row for every pair,
// in the order of the pairs.
func rowArrived(a *exec.Args, pair int) (x, w []byte) {
	j := pair
	if len(a.In) == 2 {
		if j = int(data[int32](a.In[1])[pair]); j < 0 {
			return nil, nil
		}
	}
	row := packed(a.In[0], j)
	xs := len(row)
	if len(a.Out) == 2 {
		xs -= a.Out[1].Type.DType.Size()
	}
	return row[:xs], row[xs:]
}

// exchangePairs emits the all_to_all of the rows, of size bytes, that return to a rank of
// that many pairs.
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
			home, away := exec.Make[int32](a, n), exec.Make[int32](a, n)
			eg.SendCounts(home, kept, member)
			eg.RecvCounts(away, kept, member)
			return g.AllToAll(ctx, c, parcelsOf(a, a.Out[0], home, size), parcelsOf(a, a.In[0], away, size))
		}})
	return nil
}

// packed returns row j of packed rows.
func packed(rows array.Array, j int) []byte {
	size := rows.Type.Shape[rows.Type.Rank()-1]
	return rows.Bytes()[j*size : (j+1)*size]
}

// rowsPacked is the work of packing the rows that return to their tokens.
type rowsPacked struct {
	buf  []byte
	rows []array.Array
	recv []int32
	size int
}

func (w *rowsPacked) Piece(lo, hi int) {
	for j := lo; j < hi; j++ {
		i := int(w.recv[j])
		packRow(w.buf[j*w.size:][:w.size], w.rows, i, i)
	}
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
