package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// Products in a tree are computed tile by tile, keeping the sums of a tile's blocks in the cache
// until they are added.
const (
	treeCols = 1024    // of a tile, at most
	treeTile = 1 << 16 // elements of a tile, at most
	treeRows = 16      // of a tile, at least
	// gemmBlock is the number of products that gemm sums before adding them to the result.
	// Accumulating a block of at most this size onto the block before it therefore adds in the
	// order of the tree.
	gemmBlock = 256
)

// tiling cuts a matrix of m by n elements into tiles.
type tiling struct{ m, n, rows, cols int }

// tilingOf cuts one of `count` matrices, into enough tiles for all threads.
func tilingOf(m, n, count, threads int) tiling {
	t := tiling{m: m, n: n, cols: max(1, min(n, treeCols))}
	t.rows = max(treeTile/t.cols, treeRows)
	if each := 2 * threads / max(count, 1); each > 1 {
		t.rows = min(t.rows, max(treeRows, (m+each-1)/each))
	}
	t.rows = max(1, min(m, (t.rows+treeRows-1)/treeRows*treeRows))
	return t
}

// tiles returns the number of tiles.
func (t tiling) tiles() int { return t.down() * ((t.n + t.cols - 1) / t.cols) }

func (t tiling) down() int { return (t.m + t.rows - 1) / t.rows }

// tile returns the first row and column of tile i, and its size.
func (t tiling) tile(i int) (row, col, rows, cols int) {
	row, col = i%t.down()*t.rows, i/t.down()*t.cols
	return row, col, min(t.rows, t.m-row), min(t.cols, t.n-col)
}

// scratchLen returns the scratch elements of a piece of work, for sums of the given number of blocks.
func (t tiling) scratchLen(blocks int) int { return t.rows * t.cols * treeDepth(blocks) }

// treeOperand is a matrix operand. With the contracted index p, element i,p of the left operand is
// x[i*outer+p*inner], and element p,j of the right one x[p*inner+j*outer].
type treeOperand[T float] struct {
	x            []T
	outer, inner int
}

// sumTile sets c, m by n elements with row stride ldc, to the product of x and y. Block b has the
// contracted indices [starts[b], starts[b+1]). room has tiling.scratchLen elements.
func sumTile[T float](dry *kernel.Dry, m, n int, starts []int32, x, y treeOperand[T], c []T, ldc int, room []T) {
	blocks := len(starts) - 1
	var empty [32]bool // whether each sum on the stack has no products
	level := func(d int) ([]T, int) {
		if d == 0 {
			return c, ldc
		}
		return kernel.From(room, (d-1)*m*n), n
	}
	product := func(b, d int, add bool) {
		z, ldz := level(d)
		from, k := int(starts[b]), int(starts[b+1]-starts[b])
		gemm.MultiplyPanels(dry, m, n, k, kernel.From(x.x, from*x.inner), x.outer, x.inner,
			gemm.Matrix[T]{X: kernel.From(y.x, from*y.inner), Row: y.inner, Col: y.outer}, z, ldz, add)
	}
	some := false // a block has no products
	d := 0        // sums on the stack
	for b := range blocks {
		k := starts[b+1] - starts[b]
		some = some || k == 0
		odd := b
		if b&1 == 1 && k <= gemmBlock { // accumulated onto the block before it
			if k > 0 {
				product(b, d-1, !empty[d-1])
				empty[d-1] = false
			}
			odd >>= 1
		} else {
			if empty[d] = k == 0; k > 0 {
				product(b, d, false)
			}
			d++
		}
		for ; odd&1 == 1 && d > 1; odd >>= 1 {
			d--
			if dry != nil || empty[d] {
				continue
			}
			to, ldt := level(d - 1)
			from, ldf := level(d)
			for i := range m {
				if row := to[i*ldt:][:n]; empty[d-1] {
					copy(row, from[i*ldf:][:n])
				} else {
					vector.Add(row, row, from[i*ldf:][:n])
				}
			}
			empty[d-1] = false
		}
	}
	if dry != nil || !some {
		return
	}
	// A block without products is 0, and the sum of -0 and 0 is 0.
	for i := range m {
		row := c[i*ldc:][:n]
		if empty[0] {
			clear(row)
			continue
		}
		for j := range row {
			row[j] += 0
		}
	}
}

// treeDot returns the kernel of dotGeneralOp summing a run of blocks.
func treeDot(l, r operandDims, run blockRun) exec.Kernel {
	return func(a *exec.Args) error {
		if a.Out[0].Type.DType == graph.F64 {
			dotInTree[float64](a, l, r, run)
		} else {
			dotInTree[float32](a, l, r, run)
		}
		return nil
	}
}

func dotInTree[T float](a *exec.Args, l, r operandDims, run blockRun) {
	d := a.Out[0].Type.DType
	x, y := operandOf(a, inType(a, a.In[0], d), l), operandOf(a, inType(a, a.In[1], d), r)
	t := tilingOf(x.rows, y.rows, len(x.start), a.Threads)
	starts := exec.Make[int32](a, run.n+1)
	for b := range starts {
		starts[b] = int32((run.first + b) * x.cols / run.of)
	}
	exec.Share(a, len(x.start)*t.tiles(), 1+dotGrain/(1+t.rows*t.cols*x.cols), treeDots[T]{exec.Taking{}, a.Dry(), t, x, y,
		data[T](x.array), data[T](y.array), data[T](a.Out[0]), starts, exec.RoomsOf[T](a, t.scratchLen(run.n))})
}

type treeDots[T float] struct {
	exec.Taking
	dry *kernel.Dry
	tiling
	l, r    operand
	x, y, z []T
	starts  []int32
	rooms   *exec.Rooms[T]
}

func (w *treeDots[T]) Piece(lo, hi int) {
	var room []T
	if w.dry == nil {
		room = w.rooms.Take()
	}
	for i := lo; i < hi; i++ {
		b := i / w.tiles()
		row, col, m, n := w.tile(i % w.tiles())
		sumTile(w.dry, m, n, w.starts,
			treeOperand[T]{kernel.From(w.x, w.l.start[b]+row*w.l.rowStride), w.l.rowStride, w.l.colStride},
			treeOperand[T]{kernel.From(w.y, w.r.start[b]+col*w.r.rowStride), w.r.rowStride, w.r.colStride},
			kernel.From(w.z, (b*w.m+row)*w.n+col), w.n, room)
	}
}

// treeSum returns the sum over tokens split over axes. A rank has the blocks of its group's
// tokens.
func (g groupedOuterOp) treeSum(m sharding.Mesh, l epLayer, tokens int, axes []string) (treeSum, error) {
	s := treeSum{blocks: g.Tree, axes: axes}
	if members := l.members(m, axes); members > 1 {
		s.axes = slices.DeleteFunc(slices.Clone(axes), func(a string) bool { return sharding.AxisOf(a) == l.axis })
	}
	each, err := blocksOver(m, g.Tree, tokens, axes)
	s.has = func(m sharding.Mesh, rank int) []int {
		if len(s.axes) == len(axes) {
			return each(m, rank)
		}
		var all []int
		for _, r := range m.Group(rank, []string{l.axis}) {
			all = append(all, each(m, r)...)
		}
		slices.Sort(all)
		return all
	}
	return s, err
}

// lowerTree emits the kernel summing blocks of tokens.
func (g groupedOuterOp) lowerTree(e *lowering.Emitter, out, in []lowering.Buf, counts lowering.Buf, align int) error {
	rows := in[0].Spec
	l, routing := rows.Ragged.Layer.(DispatchOp).layer(), rows.Ragged.Routing
	s, err := g.treeSum(e.Mesh, l, routing.Type.Shape[0], rows.Ragged.Tokens)
	if err != nil {
		return err
	}
	most := 0
	for rank := range e.Mesh.Ranks() {
		most = max(most, len(s.has(e.Mesh, rank)))
	}
	starts, err := l.blockRows(e, routing, rows.Ragged.Tokens, g.Tree, most)
	if err != nil {
		return err
	}
	likely := likelyCounts(e.Eqn.In[0].Type, in[0].Type, out[0].Type.Shape[0], e.Mesh.Ranks())
	spec := lowering.KernelSpec{Op: ops.GroupedOuter | ops.Tree, Out: out, In: []lowering.Buf{in[0], in[1], starts, counts}}
	return s.emit(e, spec, func(run blockRun) exec.Kernel {
		k := inFloat(outerInTree[float32](align, most, run), outerInTree[float64](align, most, run))
		dry := counted(likely, k)
		return func(a *exec.Args) error {
			if a.Dry() != nil {
				return dry(a)
			}
			return k(a)
		}
	})
}

// outerInTree is groupedOuter of a run of blocks of tokens. Argument 2 i32[experts,blocks+1]
// holds the first row of each block among an expert's rows.
func outerInTree[T float](align, blocks int, run blockRun) exec.Kernel {
	return func(a *exec.Args) error {
		h, f := a.In[0].Type.Shape[1], a.In[1].Type.Shape[1]
		counts := data[int32](a.In[3])
		if h == 0 || f == 0 || len(counts) == 0 {
			return nil
		}
		starts := data[int32](a.In[2])
		if a.Dry() != nil { // one block has all
			starts = exec.Make[int32](a, len(counts)*(blocks+1))
			for e, n := range counts {
				starts[e*(blocks+1)+run.first+run.n] = n
			}
		}
		first := exec.Make[int](a, len(counts))
		at, most := 0, 0
		for e, n := range counts {
			if have := starts[(e+1)*(blocks+1)-1]; have != n && a.Dry() == nil {
				return fmt.Errorf("internal error: expert %d has %d rows, and %d in blocks", e, n, have)
			}
			first[e], most = at, max(most, int(n))
			at = roundUp(at+int(n), align)
		}
		t := tilingOf(h, f, len(counts), a.Threads)
		exec.Share(a, len(counts)*t.tiles(), 1, treeOuters[T]{exec.Taking{}, a.Dry(), t, data[T](a.In[0]), data[T](a.In[1]), data[T](a.Out[0]),
			starts, first, blocks, run, exec.RoomsOf[T](a, t.scratchLen(run.n))})
		return nil
	}
}

type treeOuters[T float] struct {
	exec.Taking
	dry *kernel.Dry
	tiling
	x, y, w []T
	starts  []int32 // of each expert
	first   []int   // row of each expert
	blocks  int     // that starts has of each expert
	run     blockRun
	rooms   *exec.Rooms[T]
}

func (p *treeOuters[T]) Piece(lo, hi int) {
	var room []T
	if p.dry == nil {
		room = p.rooms.Take()
	}
	for i := lo; i < hi; i++ {
		e := i / p.tiles()
		row, col, m, n := p.tile(i % p.tiles())
		sumTile(p.dry, m, n, p.starts[e*(p.blocks+1)+p.run.first:][:p.run.n+1],
			treeOperand[T]{kernel.From(p.x, p.first[e]*p.m+row), 1, p.m},
			treeOperand[T]{kernel.From(p.y, p.first[e]*p.n+col), 1, p.n},
			kernel.From(p.w, (e*p.m+row)*p.n+col), p.n, room)
	}
}
