package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// embeddingOp looks up rows of a table. embeddingGradOp, its transpose, adds rows to
// a table of Num rows.
type (
	embeddingOp     struct{}
	embeddingGradOp struct {
		Num int
		// Tree, if not 0, is the number of blocks of the first dimension of the ids. The rows of
		// each block are added to a table of zeros, and the tables are added in pairs, making sums
		// independent of the number of ranks. Rows are f32 or f64.
		Tree int
	}
)

var (
	_ primitive = embeddingOp{}
	_ primitive = embeddingGradOp{}

	_ sharding.Blocked = embeddingGradOp{}
)

// Embedding returns table[ids]: table[V,D] of a float type, or in blocks, and ids i32[..]
// from 0 to V-1 give [..,D] of the table's element type; ConvertElementType makes numbers
// of blocks. Any other id stops the run with an error that gives its position.
func Embedding(table, ids *graph.Value) *graph.Value {
	return graph.Apply1(embeddingOp{}, table, ids)
}

// Blocks marks a primitive taking weights in blocks.
func (embeddingOp) Blocks() {}

func (embeddingOp) Name() string     { return "embedding" }
func (embeddingGradOp) Name() string { return "embedding_grad" }

func (embeddingOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	table, ids := in[0], in[1]
	if err := floating(table); err != nil && !table.DType.IsBlock() {
		return nil, fmt.Errorf("table: %w", err)
	}
	if table.Rank() != 2 {
		return nil, fmt.Errorf("table is %s, want 2 dimensions, [V,D]", table)
	}
	if ids.DType != graph.I32 {
		return nil, fmt.Errorf("ids have element type %s, want i32; convert with convert_element_type", ids.DType)
	}
	return []graph.Type{rowsFor(ids, table)}, nil
}

// rowsFor returns the type of one row of table for each id.
func rowsFor(ids, table graph.Type) graph.Type {
	return graph.T(table.DType, append(append([]int(nil), ids.Shape...), table.Shape[1])...)
}

func (p embeddingGradOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	ids, ct := in[0], in[1]
	if p.Num < 0 {
		return nil, fmt.Errorf("num=%d, want the number of rows of the table", p.Num)
	}
	if err := atLeast(ct, 1); err != nil {
		return nil, fmt.Errorf("cotangent: %w", err)
	}
	table := graph.T(ct.DType, p.Num, ct.Shape[ct.Rank()-1])
	want, err := embeddingOp{}.Infer([]graph.Type{table, ids})
	if err != nil {
		return nil, err
	}
	if !ct.Equal(want[0]) {
		return nil, fmt.Errorf("the cotangent is %s for ids %s, want %s", ct, ids, want[0])
	}
	if p.Tree != 0 {
		if ids.Rank() == 0 {
			return nil, fmt.Errorf("tree=%d for one id, want a dimension to cut into blocks", p.Tree)
		}
		return []graph.Type{table}, treeOf(p.Tree, ids.Shape[0], table)
	}
	return []graph.Type{table}, nil
}

func (embeddingOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	if e.In[0].Type.DType.IsBlock() {
		return []*graph.Value{nil, nil}, nil // weights in blocks have no cotangent
	}
	return []*graph.Value{graph.Apply1(embeddingGradOp{Num: e.In[0].Dim(0)}, e.In[1], ct[0]), nil}, nil
}

func (embeddingGradOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{nil, Embedding(ct[0], e.In[0])}, nil
}

// Shard allows splitting ids, columns and, for a table of numbers, its rows. If rows are split, each rank looks up the ids
// in its shard of the table, leaving a sum pending.
func (embeddingOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	ids, rows := lookupDims(c.Type(1).Rank())
	f := sharding.Factors{In: [][]int{{sharding.Whole, rows[len(ids)]}, ids}, Out: [][]int{rows}, RowWise: len(ids) > 0}
	if d := c.Type(0).DType; !d.IsBlock() && !d.IsF8() {
		f.In[0][0] = len(rows)
		f.Sum = []int{len(rows)}
	}
	return c.Place(f)
}

func (p embeddingGradOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	ids, rows := lookupDims(c.Type(0).Rank())
	dec, err := c.Place(sharding.Factors{In: [][]int{ids, rows}, Out: [][]int{{sharding.Whole, rows[len(ids)]}}, Sum: ids})
	if err == nil && p.Tree > 0 {
		err = placeTree(c, &dec, p.Tree, 0, 0)
	}
	return dec, err
}

// InBlocks implements sharding.Blocked.
func (p embeddingGradOp) InBlocks(e *graph.Eqn, in []sharding.Spec, blocks int) (graph.Primitive, error) {
	p.Tree = blocks
	return p, firstInBlocks(e, in[0], kept(e.In[0].Type.Rank(), nil), blocks)
}

// lookupDims returns the factors of ids of this rank and of their rows.
func lookupDims(rank int) (ids, rows []int) {
	for i := range rank + 1 {
		rows = append(rows, i)
	}
	return rows[:rank], rows
}

func (embeddingOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	ids, t := in[1].Spec, e.Eqn.In[1].Type
	if axes := in[0].Spec.At(0); len(axes) > 0 {
		return e.Emit(lowering.KernelSpec{Op: ops.EmbeddingPart, Out: out, In: in, Kernel: lookUpShard(axes, e.Eqn.In[0].Type.Shape[0], ids, t)})
	}
	return e.Emit(lowering.KernelSpec{Op: ops.Embedding, Out: out, In: in, Kernel: func(a *exec.Args) error {
		return checkIDs(a, ids, t, a.In[1], 0, a.In[0].Type.Shape[0], "id", lookUp)
	}})
}

func (p embeddingGradOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	ids, t, add := in[0].Spec, e.Eqn.In[0].Type, inFloat(addRows[float32], addRows[float64])
	if p.Tree > 0 {
		return emitTree(e, lowering.KernelSpec{Op: ops.EmbeddingGrad | ops.Tree, Out: out, In: in}, p.Tree, 0, 0, func(run blockRun) exec.Kernel {
			add := inFloat(addRowsInTree[float32](run), addRowsInTree[float64](run))
			return func(a *exec.Args) error {
				return checkIDs(a, ids, t, a.In[0], 0, p.Num, "id", add)
			}
		})
	}
	return e.Emit(lowering.KernelSpec{Op: ops.EmbeddingGrad, Out: out, In: in, Dry: widening(), Kernel: func(a *exec.Args) error {
		return checkIDs(a, ids, t, a.In[0], 0, p.Num, "id", add)
	}})
}

func lookUp(a *exec.Args) error {
	table, ids, out := a.In[0].Bytes(), data[int32](a.In[1]), a.Out[0].Bytes()
	n := int(graph.Type{DType: a.In[0].Type.DType, Shape: a.In[0].Type.Shape[1:]}.Bytes())
	exec.Share(a, len(ids), 1+4*cheap/(1+n), rowLookup{out, table, ids, n})
	return nil
}

// lookUpShard returns the kernel for a table of `all` rows, split over axes. Rows of other ranks are -0, which changes no
// bit of a sum.
func lookUpShard(axes []string, all int, s sharding.Spec, t graph.Type) exec.Kernel {
	return func(a *exec.Args) error {
		return checkIDs(a, s, t, a.In[1], 0, all, "id", func(a *exec.Args) error {
			first, size := a.Part(axes, all)
			table, ids, out := a.In[0].Bytes(), data[int32](a.In[1]), a.Out[0].Bytes()
			d := int(a.Out[0].Type.DType.Size())
			n := d * a.In[0].Type.Shape[1]
			for i, id := range ids {
				row := out[i*n:][:n]
				if at := int(id) - first; at >= 0 && at < size {
					copy(row, table[at*n:][:n])
					continue
				}
				clear(row)
				for sign := d - 1; sign < n; sign += d {
					row[sign] = 0x80
				}
			}
			return nil
		})
	}
}

type rowLookup struct {
	out, table []byte
	ids        []int32
	n          int // bytes of a row
}

func (w *rowLookup) Piece(lo, hi int) {
	n := w.n
	for i := lo; i < hi; i++ {
		copy(w.out[i*n:][:n], w.table[int(w.ids[i])*n:][:n])
	}
}

// addRows adds the rows with the same id in the order of the ids. Pieces of work are
// ranges of columns and never write to the same element.
func addRows[T float](a *exec.Args) error {
	ids, ct, table := data[int32](a.In[0]), data[T](a.In[1]), data[T](a.Out[0])
	n := a.Out[0].Type.Shape[1]
	clear(table)
	exec.Share(a, n, max(16, cheap/(1+len(ids))), columnAddition[T]{table, ct, ids, n})
	return nil
}

type columnAddition[T float] struct {
	table, ct []T
	ids       []int32
	n         int
}

func (w *columnAddition[T]) Piece(lo, hi int) {
	for i, id := range w.ids {
		dst := w.table[int(id)*w.n:][lo:hi]
		vector.Add(dst, dst, w.ct[i*w.n:][lo:hi])
	}
}

func (embeddingOp) Doc() graph.Doc {
	return graph.Doc{Args: "table f[V,D], ids i32[..]", Results: "f[..,D]", Formula: "y[..,:] = table[ids[..],:]",
		Notes: "An id below 0 or from V on stops the run. Where the rows of a table are split, a rank has -0 for ids of others, and the sum is pending: it has the bits of the whole table's rows."}
}

func (embeddingGradOp) Doc() graph.Doc {
	return graph.Doc{Args: "ids i32[..], ct f[..,D]", Results: "f[num,D]", Formula: "dtable[v,:] = Σ ct[i,:] over ids[i] = v",
		Params: "num: rows of the table; tree: blocks of the first dimension whose sums are added in pairs, for f32 or f64 rows", Notes: "Adds in the order of the ids, in f32 for bf16 and f16. Where ids are split the sum is pending."}
}

// addRowsInTree returns addRows for the rows of a run of blocks. For each row of the table, the
// rows of each block are added in the order of the ids, and these sums are added in pairs. A block
// without such a row adds nothing.
func addRowsInTree[T float](run blockRun) exec.Kernel {
	return func(a *exec.Args) error {
		ids, ct, table := data[int32](a.In[0]), data[T](a.In[1]), data[T](a.Out[0])
		num, n := a.Out[0].Type.Shape[0], a.Out[0].Type.Shape[1]
		clear(table)
		each := len(ids) / run.of
		ids, ct = ids[run.first*each:][:run.n*each], kernel.From(ct, run.first*each*n)
		start, order := exec.Make[int32](a, num+1), exec.Make[int32](a, len(ids))
		for _, id := range ids {
			start[id+1]++
		}
		for i := range num {
			start[i+1] += start[i]
		}
		next := exec.Make[int32](a, num)
		copy(next, start)
		for i, id := range ids {
			order[next[id]] = int32(i)
			next[id]++
		}
		exec.Share(a, num, 1+cheap/(1+n*(1+len(ids)/max(num, 1))), treeRowAddition[T]{table, ct, start, order, n, run.n, each,
			exec.RoomsOf[T](a, n*treeDepth(run.n))})
		return nil
	}
}

type treeRowAddition[T float] struct {
	table, ct    []T
	start, order []int32 // the ids equal to v are order[start[v]:start[v+1]], ascending
	n            int
	blocks, each int // ids of a block
	rooms        *exec.Rooms[T]
}

func (w *treeRowAddition[T]) Piece(lo, hi int) {
	room := w.rooms.Take()
	for v := lo; v < hi; v++ {
		if list := w.order[w.start[v]:w.start[v+1]]; len(list) > 0 {
			w.sum(w.table[v*w.n:][:w.n], list, 0, w.blocks, room)
		}
	}
}

// sum sets dst, zeros, to the sum of the rows of list, the rows of `count` blocks from block
// `first` on.
func (w *treeRowAddition[T]) sum(dst []T, list []int32, first, count int, room []T) {
	if count == 1 {
		for _, i := range list {
			vector.Add(dst, dst, w.ct[int(i)*w.n:][:w.n])
		}
		return
	}
	half, cut := count/2, 0
	for cut < len(list) && int(list[cut]) < (first+half)*w.each {
		cut++
	}
	switch cut {
	case 0:
		w.sum(dst, list, first+half, count-half, room)
	case len(list):
		w.sum(dst, list, first, half, room)
	default:
		w.sum(dst, list[:cut], first, half, room)
		other := room[:w.n]
		clear(other)
		w.sum(other, list[cut:], first+half, count-half, room[w.n:])
		vector.Add(dst, dst, other)
	}
}
