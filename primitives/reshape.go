package primitives

import (
	"context"
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// reshapeOp gives its argument another shape with as many elements.
type reshapeOp struct {
	Shape []int
	// Batch merges the batch dimensions, all but the last, into one dimension of rows. With a
	// second argument it splits rows into the batch dimensions of that argument, which is not
	// read. The axes splitting any batch dimension split the rows. Ranks exchange rows missing in
	// their shard.
	Batch bool
}

var _ rearranging = reshapeOp{}

// Reshape returns x with another shape, its elements in the same row-major
// order.
func Reshape(x *graph.Value, shape ...int) *graph.Value {
	return graph.Apply1(reshapeOp{Shape: slices.Clone(shape)}, x)
}

func (reshapeOp) Name() string { return "reshape" }

func (r reshapeOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if len(in) != 2 || !r.Batch {
		if err := arity(in, 1); err != nil {
			return nil, err
		}
	}
	out := graph.Type{DType: in[0].DType, Shape: r.Shape}
	if slices.ContainsFunc(r.Shape, func(n int) bool { return n < 0 }) {
		return nil, fmt.Errorf("shape %v for %d elements has a negative size; write every size, none is inferred", r.Shape, in[0].Len())
	}
	if !out.Fits() || out.Len() != in[0].Len() {
		return nil, fmt.Errorf("shape %v for %d elements; the product of the sizes is the number of elements", r.Shape, in[0].Len())
	}
	if r.Batch {
		if err := r.inferBatch(in); err != nil {
			return nil, err
		}
	}
	return []graph.Type{out}, nil
}

func (r reshapeOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	switch {
	case r.Batch && len(e.In) == 2:
		return []*graph.Value{flatten(ct[0]), nil}, nil
	case r.Batch:
		return []*graph.Value{unflatten(ct[0], e.In[0])}, nil
	}
	return []*graph.Value{Reshape(ct[0], e.In[0].Type.Shape...)}, nil
}

// Shard splits the result where the argument is split. A dimension of the argument and
// one of the result cut the elements into the same contiguous parts if the sizes before
// both have the same product. If dimensions are merged, or one is split up, the first of
// them therefore stays split, provided that ranks get the same share of both.
func (r reshapeOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	if r.Batch {
		return r.shardBatch(c)
	}
	return r.place(c)
}

// place is Shard without Batch.
func (r reshapeOp) place(c *sharding.Context) (sharding.Decision, error) {
	f := r.Factors(c, c.In[0].Ragged != nil)
	f.In = f.In[:1]
	return c.Place(f)
}

// Factors relates dimensions that cut the elements into the same contiguous parts. A batch
// is made whole if its rows would have to move.
func (r reshapeOp) Factors(c *sharding.Context, ragged bool) sharding.Factors {
	x := c.Type(0).Shape
	in, out := wholes(len(x)), wholes(len(r.Shape))
	outerX, outerY := outsides(x), outsides(r.Shape)
	for i, n := range x {
		for j, m := range r.Shape {
			sameRows := i == 0 && j == 0 && m == n
			sameParts := n != 1 && m != 1 && outerX[i] == outerY[j]
			if sameRows || sameParts && (i > 0 || !ragged) { // ragged rows remain rows
				in[i], out[j] = i, i
			}
		}
	}
	f := sharding.Factors{In: [][]int{in}, Out: [][]int{out}, RowWise: true, Linear: sharding.LinearTogether}
	for i := range c.In[1:] {
		f.In = append(f.In, wholes(c.Type(i+1).Rank()))
	}
	return f
}

// outerSizes describes the dimensions before a dimension: n is the product of their sizes
// that are not 0, and zeros the number of sizes that are 0.
type outerSizes struct{ n, zeros int }

func outsides(shape []int) []outerSizes {
	out := make([]outerSizes, len(shape))
	o := outerSizes{n: 1}
	for d, n := range shape {
		out[d] = o
		if n == 0 {
			o.zeros++
		} else {
			o.n *= n
		}
	}
	return out
}

func (r reshapeOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	if r.Batch {
		return r.lowerBatch(e, out, in)
	}
	e.Alias(out[0], in[0])
	return nil
}

func (reshapeOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..], like t[..] (optional, with batch)", Results: "t[shape]", Formula: "y has x's elements in the same row-major order",
		Params: "shape: sizes of the result; batch: all dimensions but the last are merged into rows or, with like, rows are taken apart into the dimensions of like",
		Notes:  "Where dimensions are merged or one is taken apart, the first of them may be split over the mesh if every rank gets the same share on both sides. With batch any of the merged dimensions may be split: ranks exchange rows by all_to_all. The values of like are not read."}
}

// flatten returns x with all dimensions except the last merged into one. The last dimension
// has the elements of one token.
func flatten(x *graph.Value) *graph.Value {
	graph.Helper()
	if x.Rank() == 2 {
		return x
	}
	n := 1
	for _, d := range x.Type.Shape[:x.Rank()-1] {
		n *= d
	}
	if d := x.Def; d != nil && len(d.In) == 2 && d.In[0].Rank() == 2 && d.In[0].Dim(0) == n {
		if r, ok := d.Prim.(reshapeOp); ok && r.Batch {
			return d.In[0] // x was unflattened from it
		}
	}
	return graph.Apply1(reshapeOp{Shape: []int{n, x.Dim(-1)}, Batch: true}, x)
}

// unflatten returns y [tokens, n] with the tokens reshaped to the leading dimensions of like, placed like
// them.
func unflatten(y, like *graph.Value) *graph.Value {
	graph.Helper()
	if like.Rank() == 2 {
		return y
	}
	lead := like.Type.Shape[:like.Rank()-1]
	return graph.Apply1(reshapeOp{Shape: append(slices.Clone(lead), y.Dim(-1)), Batch: true}, y, like)
}

// inferBatch is Infer of a reshape with Batch set.
func (r reshapeOp) inferBatch(in []graph.Type) error {
	x, y := in[0], r.Shape
	if len(in) == 2 {
		x, y = graph.Type{DType: in[0].DType, Shape: r.Shape}, in[0].Shape
		if n := in[1].Rank(); n != len(r.Shape) || n > 0 && !slices.Equal(in[1].Shape[:n-1], r.Shape[:n-1]) {
			return fmt.Errorf("shape %v with the batch of %s, want its sizes but for the last dimension", r.Shape, in[1])
		}
	}
	if n := x.Rank(); n < 2 || len(y) != 2 || y[1] != x.Shape[n-1] {
		return fmt.Errorf("%s as a batch of rows %v, want [rows, %s's last dimension]", x, y, x.DType)
	}
	return nil
}

// batch is the split of the leading dimensions of an array, which form a batch of rows.
type batch struct {
	shape []int
	dims  [][]string // the axes splitting each dimension
	axes  []string   // all of them, in the order of the dimensions
	rows  int        // the product of shape
}

func batchOf(t graph.Type, s sharding.Spec) batch {
	b := batch{shape: t.Shape[:t.Rank()-1], rows: 1}
	for d, n := range b.shape {
		b.dims = append(b.dims, s.At(d))
		b.axes = append(b.axes, s.At(d)...)
		b.rows *= n
	}
	return b
}

// keepsRows reports whether splitting the merged rows over axes gives each rank the rows it
// already holds.
func (b batch) keepsRows(m sharding.Mesh) bool {
	before := 1
	for d, axes := range b.dims {
		n, parts := b.shape[d], m.Parts(axes)
		if parts > 1 && (before != 1 || !m.CutAlike(axes, n, b.rows)) {
			return false
		}
		before *= n
	}
	return true
}

// shardBatch keeps the axes splitting a batch. After merging they split the rows, and in the
// opposite direction the same dimensions as in like. Rows of other ranks then move.
func (r reshapeOp) shardBatch(c *sharding.Context) (sharding.Decision, error) {
	alone := *c
	alone.In = c.In[:1]
	b := batchOf(c.Type(len(c.In)-1), c.In[len(c.In)-1])
	x := c.In[0]
	back := len(c.In) == 2
	if b.keepsRows(c.Mesh) || x.Ragged != nil || back && !slices.Equal(x.At(0), b.axes) {
		dec, err := r.place(&alone)
		dec.In = append(dec.In, c.In[1:]...)
		return dec, err
	}
	from, to := x.Resolved(), sharding.Spec{Dims: [][]string{b.axes, x.At(c.Type(0).Rank() - 1)}}
	if back {
		to.Dims = append(slices.Clone(b.dims), x.At(1))
	}
	return sharding.Decision{In: append([]sharding.Spec{from}, c.In[1:]...), Out: []sharding.Spec{to}}, nil
}

// lowerBatch moves rows in one all_to_all. A rank sends its rows in batch order. Merging, the rows for each
// receiver are contiguous, and are permuted after receiving. Splitting, the rows from each sender are
// contiguous, and are permuted before sending.
func (r reshapeOp) lowerBatch(e *lowering.Emitter, out, in []lowering.Buf) error {
	if len(in) == 1 {
		b := batchOf(e.Eqn.In[0].Type, in[0].Spec)
		if b.keepsRows(e.Mesh) {
			e.Alias(out[0], in[0])
			return nil
		}
		got := e.Placed(e.Eqn.Out[0].Type, out[0].Spec)
		b.exchange(e, got, in[0], false)
		return e.Emit(lowering.KernelSpec{Op: ops.RowsTogether, Out: out, In: []lowering.Buf{got}, Kernel: func(a *exec.Args) error {
			b.copy(a, a.Out[0].Bytes(), a.In[0].Bytes(), false)
			return nil
		}})
	}
	b := batchOf(e.Eqn.Out[0].Type, out[0].Spec)
	if b.keepsRows(e.Mesh) || !slices.Equal(in[0].Spec.At(0), b.axes) {
		e.Alias(out[0], in[0])
		return nil
	}
	send := e.Placed(e.Eqn.In[0].Type, in[0].Spec)
	err := e.Emit(lowering.KernelSpec{Op: ops.RowsApart, Out: []lowering.Buf{send}, In: in[:1], Kernel: func(a *exec.Args) error {
		b.copy(a, a.Out[0].Bytes(), a.In[0].Bytes(), true)
		return nil
	}})
	if err == nil {
		b.exchange(e, out[0], send, true)
	}
	return err
}

// exchange emits the all_to_all from the ranks holding rows of the batch to the ranks holding
// contiguous rows or, if back is set, the reverse exchange.
func (b batch) exchange(e *lowering.Emitter, out, in lowering.Buf, back bool) {
	e.EmitCollective(lowering.CollectiveSpec{Op: ops.AllToAll, Axes: b.axes, DType: in.Type.DType, Bytes: in.Type.Bytes(), Out: []lowering.Buf{out}, In: []lowering.Buf{in},
		Exchange: func(ctx context.Context, g collective.Group, c collective.Call, a *exec.Args) error {
			me, n := a.Index(b.axes), a.Mesh.Parts(b.axes)
			to, from := exec.NewDirty[memberSlices](a), exec.NewDirty[memberSlices](a)
			to.parts, from.parts = to.parts[:0], from.parts[:0]
			src, dst := a.In[0].Bytes(), a.Out[0].Bytes()
			row := rowBytes(a.In[0].Type)
			for i := range n {
				sent, received := b.sharedRows(a.Mesh, me, i)*row, b.sharedRows(a.Mesh, i, me)*row
				if back {
					sent, received = received, sent
				}
				to.parts, src = append(to.parts, src[:sent]), src[sent:]
				from.parts, dst = append(from.parts, dst[:received]), dst[received:]
			}
			return g.AllToAll(ctx, c, from.parts, to.parts)
		}})
}

// copy permutes the rank's contiguous rows from src to dst: from the order of the members
// sending them or, if apart is set, to this order.
func (b batch) copy(a *exec.Args, dst, src []byte, apart bool) {
	me, row := a.Index(b.axes), rowBytes(a.In[0].Type)
	first, _ := a.Mesh.Cut(b.axes, b.rows, me)
	at := 0
	for i := range a.Mesh.Parts(b.axes) {
		b.runs(a.Mesh, i, me, func(t, n int) {
			from, to := src[at*row:(at+n)*row], dst[(t-first)*row:]
			if apart {
				from, to = src[(t-first)*row:(t-first+n)*row], dst[at*row:]
			}
			copy(to, from)
			at += n
		})
	}
}

// BatchRows calls f for runs of the contiguous rows of a rank, n rows from the rank's row `row` on, in the
// order of the ranks sending them. The batch has type t and placement s.
func (reshapeOp) BatchRows(m sharding.Mesh, t graph.Type, s sharding.Spec, rank int, f func(row, n int)) {
	b := batchOf(t, s)
	me := m.Index(rank, b.axes)
	first, _ := m.Cut(b.axes, b.rows, me)
	for i := range m.Parts(b.axes) {
		b.runs(m, i, me, func(t, n int) { f(t-first, n) })
	}
}

func rowBytes(t graph.Type) int {
	return int(graph.Type{DType: t.DType, Shape: t.Shape[t.Rank()-1:]}.Bytes())
}

// sharedRows returns the number of rows held by member i in the batch and by member j among the contiguous
// rows.
func (b batch) sharedRows(m sharding.Mesh, i, j int) (rows int) {
	b.runs(m, i, j, func(_, n int) { rows += n })
	return rows
}

// runs calls f for the rows counted by sharedRows, in order: n rows from row t of the batch
// on.
func (b batch) runs(m sharding.Mesh, i, j int, f func(t, n int)) {
	lo, size := m.Cut(b.axes, b.rows, j)
	b.walk(m, m.Parts(b.axes), i, 0, 0, lo, lo+size, f)
}

// walk is runs from dimension d on, for the rows below index `at` of the preceding dimensions.
// i is the member's index, of `parts`, along the axes of the dimensions from d on.
func (b batch) walk(m sharding.Mesh, parts, i, d, at, lo, hi int, f func(t, n int)) {
	n, axes := b.shape[d], b.dims[d]
	parts /= m.Parts(axes)
	start, size := m.Cut(axes, n, i/parts)
	at = at*n + start
	if d == len(b.shape)-1 {
		if from, to := max(at, lo), min(at+size, hi); from < to {
			f(from, to-from)
		}
		return
	}
	for k := range size {
		b.walk(m, parts, i%parts, d+1, at+k, lo, hi, f)
	}
}
