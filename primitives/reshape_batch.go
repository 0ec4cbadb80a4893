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

// flatten returns x with all dimensions except the last merged into one. The last dimension
// holds what belongs to one token.
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

// unflatten returns y [tokens, n] with the leading dimensions of like instead of the tokens,
// placed as those of like.
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

// batch is how the leading dimensions of an array, which together are a batch of rows, are
// split.
type batch struct {
	shape []int
	dims  [][]string // the axes that split each dimension
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

// stays reports whether each rank's rows are the ones that it holds if axes split the rows
// instead.
func (b batch) stays(m sharding.Mesh) bool {
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

// shardBatch keeps the axes that split a batch: they split the rows in which its dimensions
// are merged, and the dimensions again in which like is split. Rows that are on another rank
// then move.
func (r reshapeOp) shardBatch(c *sharding.Context) (sharding.Decision, error) {
	alone := *c
	alone.In = c.In[:1]
	b := batchOf(c.Type(len(c.In)-1), c.In[len(c.In)-1])
	x := c.In[0]
	back := len(c.In) == 2
	if b.stays(c.Mesh) || x.Ragged != nil || back && !slices.Equal(x.At(0), b.axes) {
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

// lowerBatch moves rows by one all_to_all. A rank sends its rows in their order, in which
// those of one receiver lie together where the receivers have contiguous rows, and so do
// the received ones of one sender where the senders have them.
func (r reshapeOp) lowerBatch(e *lowering.Emitter, out, in []lowering.Buf) error {
	if len(in) == 1 {
		b := batchOf(e.Eqn.In[0].Type, in[0].Spec)
		if b.stays(e.Mesh) {
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
	if b.stays(e.Mesh) || !slices.Equal(in[0].Spec.At(0), b.axes) {
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

// exchange emits the all_to_all from the ranks that hold rows of the batch to those that
// hold contiguous rows or, if back is set, from these to those.
func (b batch) exchange(e *lowering.Emitter, out, in lowering.Buf, back bool) {
	e.EmitCollective(lowering.CollectiveSpec{Op: ops.AllToAll, Axes: b.axes, DType: in.Type.DType, Bytes: in.Type.Bytes(), Out: []lowering.Buf{out}, In: []lowering.Buf{in},
		Exchange: func(ctx context.Context, g collective.Group, c collective.Call, a *exec.Args) error {
			me, n := a.Index(b.axes), a.Mesh.Parts(b.axes)
			to, from := exec.NewDirty[parcels](a), exec.NewDirty[parcels](a)
			to.parts, from.parts = to.parts[:0], from.parts[:0]
			src, dst := a.In[0].Bytes(), a.Out[0].Bytes()
			row := rowBytes(a.In[0].Type)
			for i := range n {
				sent, received := b.shared(a.Mesh, me, i)*row, b.shared(a.Mesh, i, me)*row
				if back {
					sent, received = received, sent
				}
				to.parts, src = append(to.parts, src[:sent]), src[sent:]
				from.parts, dst = append(from.parts, dst[:received]), dst[received:]
			}
			return g.AllToAll(ctx, c, from.parts, to.parts)
		}})
}

// copy copies the rank's contiguous rows from src to dst: from the order in which they come
// from the members that hold them in the batch, or to this order if apart is set.
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

// BatchRows calls f for the rows that a rank holds contiguously of a batch of type t, whose
// leading dimensions s splits: for n rows, from the rank's row `row` on, in the order in which
// they come from the ranks that hold them in the batch.
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

// shared returns how many rows member i holds in the batch and member j among the contiguous
// rows.
func (b batch) shared(m sharding.Mesh, i, j int) (rows int) {
	b.runs(m, i, j, func(_, n int) { rows += n })
	return rows
}

// runs calls f for the rows that shared counts, in their order: n rows from row t of the
// batch on.
func (b batch) runs(m sharding.Mesh, i, j int, f func(t, n int)) {
	lo, size := m.Cut(b.axes, b.rows, j)
	b.walk(m, m.Parts(b.axes), i, 0, 0, lo, lo+size, f)
}

// walk is runs from dimension d on, for the rows below index `at` of the dimensions before;
// i is the member's index along the axes of the other dimensions, of which there are parts.
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
