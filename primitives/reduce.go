package primitives

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// inferReduce returns the type of a reduction over axes, dropping them.
func inferReduce(in []graph.Type, axes []int) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if err := axesOf(in[0], axes); err != nil {
		return nil, err
	}
	return []graph.Type{without(in[0], axes)}, nil
}

// without returns t without the dimensions axes.
func without(t graph.Type, axes []int) graph.Type {
	out := graph.Type{DType: t.DType}
	for _, d := range kept(t.Rank(), axes) {
		out.Shape = append(out.Shape, t.Shape[d])
	}
	return out
}

// kept returns the dimensions below rank that are not in axes.
func kept(rank int, axes []int) []int {
	var out []int
	for d := range rank {
		if !slices.Contains(axes, d) {
			out = append(out, d)
		}
	}
	return out
}

// orAll returns axes, or every axis of x if axes is empty.
func orAll(x *graph.Value, axes []int) []int {
	if len(axes) == 0 {
		return kept(x.Rank(), nil)
	}
	return slices.Clone(axes)
}

// reduceFactors are the factors of a reduction over axes.
func reduceFactors(t graph.Type, axes []int) sharding.Factors {
	f := sharding.Elementwise(t, 1, 0, sharding.NotLinear)
	f.Out, f.Sum = [][]int{kept(t.Rank(), axes)}, axes
	return f
}

// placeReduce places a reduction gathering split axes, leaving no sum pending. It returns an
// error for reductions over rows in expert order, because padding rows would take part.
func placeReduce(c *sharding.Context, axes []int) (sharding.Decision, error) {
	f := reduceFactors(c.Type(0), axes)
	if c.In[0].Ragged != nil {
		f.In = [][]int{slices.Clone(f.In[0])}
		for _, d := range axes {
			f.In[0][d] = sharding.Whole
		}
	}
	dec, err := c.Place(f)
	if err == nil {
		dec.Out[0].Pending = nil
	}
	return dec, err
}

// splitOf returns the split axes among axes.
func splitOf(b lowering.Buf, axes []int) []int {
	return slices.DeleteFunc(slices.Clone(axes), func(d int) bool { return len(b.Spec.At(d)) == 0 })
}

// lowerInOrder lowers a reduction over ascending axes. The kernel reduces them from the
// last to the first. lowerInOrder reduces the axes following the last split axis, gathers
// the split axes, and reduces the rest, performing the same arithmetic on every mesh.
func lowerInOrder(e *lowering.Emitter, op ops.Op, axes []int, out, in []lowering.Buf, kernel func(axes []int) exec.Kernel) error {
	split := splitOf(in[0], axes)
	if len(split) == 0 {
		return reduction(e, op, axes, out, in, kernel)
	}
	x, global := in[0], e.Eqn.In[0].Type
	n := 1 + slices.Index(axes, split[len(split)-1])
	if tail := axes[n:]; len(tail) > 0 {
		spec := sharding.Spec{}
		for _, d := range kept(global.Rank(), tail) {
			spec.Dims = append(spec.Dims, x.Spec.At(d))
		}
		global = without(global, tail)
		if global.DType == graph.BF16 || global.DType == graph.F16 {
			global.DType = graph.F32 // to round the result once
		}
		x = e.Placed(global, spec)
		if err := reduction(e, op, tail, []lowering.Buf{x}, in, kernel); err != nil {
			return err
		}
	}
	whole := sharding.Spec{Dims: slices.Clone(x.Spec.Dims)}
	for _, d := range split {
		whole.Dims[d] = nil
	}
	got, err := e.Reshard(global, x, whole)
	if err != nil {
		return err
	}
	return reduction(e, op, axes[:n], out, []lowering.Buf{got}, kernel)
}

// lowerAnyOrder lowers a reduction independent of the order: each rank reduces its
// shard, and the results of the ranks are gathered and reduced.
func lowerAnyOrder(e *lowering.Emitter, op ops.Op, axes []int, out, in []lowering.Buf, kernel func(axes []int) exec.Kernel) error {
	split := splitOf(in[0], axes)
	if len(split) == 0 {
		return reduction(e, op, axes, out, in, kernel)
	}
	// One row per rank along the axes splitting the reduced dimensions.
	spec := sharding.Spec{Dims: make([][]string, 1+out[0].Type.Rank())}
	for _, d := range split {
		spec.Dims[0] = append(spec.Dims[0], in[0].Spec.At(d)...)
	}
	for d := range out[0].Type.Rank() {
		spec.Dims[1+d] = out[0].Spec.At(d)
	}
	spec.Dims[0] = e.Mesh.Evenly(spec.Dims[0])
	ranks := e.Mesh.Parts(spec.Dims[0])
	global := e.Eqn.Out[0].Type
	global.Shape = append([]int{ranks}, global.Shape...)
	part := e.Placed(global, spec)
	if err := reduction(e, op, axes, []lowering.Buf{part}, in, kernel); err != nil {
		return err
	}
	whole := sharding.Spec{Dims: slices.Clone(spec.Dims)}
	whole.Dims[0] = nil
	got, err := e.Reshard(global, part, whole)
	if err != nil {
		return err
	}
	return reduction(e, op, []int{0}, out, []lowering.Buf{got}, kernel)
}

// reduction emits the kernel of a reduction over axes; see reduceAxes.
func reduction(e *lowering.Emitter, op ops.Op, axes []int, out, in []lowering.Buf, kernel func(axes []int) exec.Kernel) error {
	var does graph.Primitive
	if r, ok := e.Eqn.Prim.(interface{ over([]int) graph.Primitive }); ok {
		does = r.over(axes)
	}
	return e.Emit(lowering.KernelSpec{Op: op, Out: out, In: in, Does: does, Dry: kernel(axes), Kernel: kernel(axes)})
}

// reduceAxes returns a kernel reducing axes one at a time, from the last to the first.
// step writes x reduced over one axis to y. Arrays of bf16 and f16 are widened to f32
// before the first step and rounded once after the last. The result has the number of
// remaining elements, in any shape. lines, unless nil, is step along the last axis of an
// x of bf16 or f16, widening one line at a time.
func reduceAxes(axes []int, step func(a *exec.Args, y, x array.Array, axis int), lines func(a *exec.Args, y, x array.Array)) exec.Kernel {
	return func(a *exec.Args) error {
		x := a.In[0]
		d, last := x.Type.DType, len(axes)-1
		narrow := d == graph.BF16 || d == graph.F16
		byLine := narrow && lines != nil && last >= 0 && axes[last] == x.Type.Rank()-1
		if narrow && !byLine {
			x = inType(a, x, graph.F32)
		}
		out := a.Out[0]
		for i := last; i >= 0; i-- {
			t := dropAxis(a, x.Type, axes[i])
			if byLine {
				t.DType = graph.F32
			}
			y := out.Reshape(t.Shape...)
			if i > 0 || t.DType != out.Type.DType {
				y = scratchArray(a, t)
			}
			switch {
			case byLine && i == last:
				lines(a, y, x)
			case a.Dry() == nil:
				step(a, y, x, axes[i])
			}
			x = y
		}
		if len(axes) > 0 && x.Type.DType == out.Type.DType {
			return nil // the last step has written the result
		}
		if out.Type.DType == x.Type.DType {
			copy(out.Bytes(), x.Bytes())
			return nil
		}
		return convert(a, out.Reshape(x.Type.Shape...), x)
	}
}

// foldFloat reduces x[outer,n,inner] over its middle dimension. step folds rows into inner
// accumulators in f64, starting from first.
func foldFloat[T float](a *exec.Args, y, x []T, outer, n, inner int, first float64, step func(acc []float64, rows []T)) {
	grain := 1 + 2*dear/(1+n*inner)
	exec.Share(a, outer, grain, foldLines[T]{y, x, n, inner, first, step, exec.RoomsOf[float64](a, inner)})
}

// foldLines is the work of foldFloat, with accumulators for each piece.
type foldLines[T float] struct {
	y, x     []T
	n, inner int
	first    float64
	step     func(acc []float64, rows []T)
	rooms    *exec.Rooms[float64]
}

func (w *foldLines[T]) Piece(lo, hi int) {
	acc, n, inner := w.rooms.Take(), w.n, w.inner
	for o := lo; o < hi; o++ {
		for j := range acc {
			acc[j] = w.first
		}
		w.step(acc, w.x[o*n*inner:(o+1)*n*inner])
		for j, v := range acc {
			w.y[o*inner+j] = T(v)
		}
	}
}

// numeric is an element type supporting sums and comparisons.
type numeric interface {
	float | int32 | int64 | uint32 | uint8
}

// foldInt is foldFloat for integers, accumulating in their own type.
func foldInt[T int32 | int64 | uint32 | uint8](y, x []T, outer, n, inner int, first T, step func(acc, rows []T)) {
	for o := range outer {
		acc := y[o*inner : (o+1)*inner]
		for j := range acc {
			acc[j] = first
		}
		step(acc, x[o*n*inner:(o+1)*n*inner])
	}
}

// dropAxis returns t without one dimension, until the kernel returns.
func dropAxis(a *exec.Args, t graph.Type, axis int) graph.Type {
	shape := append(exec.Make[int](a, t.Rank())[:0], t.Shape[:axis]...)
	return graph.Type{DType: t.DType, Shape: append(shape, t.Shape[axis+1:]...)}
}

// reduceSumOp sums over axes, one after another from the last to the first. It adds f64
// and f32 in f64, and bf16 and f16 in f32; integers wrap. Along an axis, floats are
// added to 8 partial sums: sum k adds the elements k, k+8, k+16 and so on. Then sums
// that are 4 apart are added, then those 2 apart, then the last two.
//
// The result has the same bits on every mesh: if an axis is split, the axes
// following it are summed, the ranks' shards are gathered, and the rest is summed.
// With Unordered, used by derivatives, the sum is left pending instead, saving time.
// Sums over rows in expert order are left pending too, because their order depends on
// the mesh.
type reduceSumOp struct {
	Axes      []int
	Unordered bool
	// Tree, if not 0, is the number of blocks of axis 0. Each block is summed, and these sums are
	// added in pairs, making the result independent of the number of ranks. The sum is f32 or f64
	// and stays pending, as with Unordered.
	Tree int
}

var _ sharding.Blocked = reduceSumOp{}
var _ primitive = reduceSumOp{}

// ReduceSum returns the sum of x over ascending axes, defaulting to all axes.
func ReduceSum(x *graph.Value, axes ...int) *graph.Value {
	return graph.Apply1(reduceSumOp{Axes: orAll(x, axes)}, x)
}

// ReduceSumUnordered is ReduceSum summing each rank's shard and exchanging only these sums.
// The last bits depend on the mesh.
func ReduceSumUnordered(x *graph.Value, axes ...int) *graph.Value {
	return graph.Apply1(reduceSumOp{Axes: orAll(x, axes), Unordered: true}, x)
}

// over returns the same reduction over other axes, for one step of the lowering.
func (r reduceSumOp) over(axes []int) graph.Primitive {
	return reduceSumOp{Axes: axes, Unordered: r.Unordered}
}

func (reduceSumOp) Name() string { return "reduce_sum" }

func (r reduceSumOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if in[0].DType == graph.Bool {
		return nil, fmt.Errorf("element type bool is not summed; convert with convert_element_type")
	}
	out, err := inferReduce(in, r.Axes)
	if err == nil && r.Tree != 0 {
		if len(r.Axes) == 0 || r.Axes[0] != 0 {
			return nil, fmt.Errorf("tree=%d for axes %v, want the first axis, which is cut into blocks, among them", r.Tree, r.Axes)
		}
		err = treeOf(r.Tree, in[0].Shape[r.Axes[0]], in[0])
	}
	return out, err
}

func (r reduceSumOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{BroadcastInDim(ct[0], e.In[0].Type.Shape, kept(e.In[0].Rank(), r.Axes)...)}, nil
}

func (r reduceSumOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	if r.Tree > 0 {
		if c.In[0].Ragged != nil {
			return sharding.Decision{}, fmt.Errorf("rows in expert order have no blocks; combine first")
		}
		dec, err := c.Place(reduceFactors(c.Type(0), r.Axes))
		if err == nil {
			err = placeTree(c, &dec, r.Tree, 0, 0)
		}
		return dec, err
	}
	if !r.Unordered && c.In[0].Ragged == nil {
		return placeReduce(c, r.Axes)
	}
	f := reduceFactors(c.Type(0), r.Axes)
	if r.Unordered {
		f.Linear = sharding.LinearTogether
	}
	return c.Place(f)
}

// mostGathered is the largest number of elements per index of a split dimension for gathering and adding
// in order instead of in a tree.
const mostGathered = 16

// InBlocks implements sharding.Blocked. Sums leaving few numbers are summed in order.
func (r reduceSumOp) InBlocks(e *graph.Eqn, in []sharding.Spec, blocks int) (graph.Primitive, error) {
	if in[0].Ragged != nil {
		return nil, fmt.Errorf("rows in expert order are summed over, and where they lie depends on the mesh; combine first")
	}
	x := e.In[0].Type
	d, err := onlySplit(in[0], r.Axes)
	if err == nil && d == 0 && x.Shape[d]%blocks == 0 && e.Out[0].Type.Len() > mostGathered {
		return reduceSumOp{Axes: r.Axes, Tree: blocks}, nil
	}
	return reduceSumOp{Axes: r.Axes}, nil
}

func (r reduceSumOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	kernel := func(axes []int) exec.Kernel { return reduceAxes(axes, sumAxis, sumNarrow) }
	if r.Tree > 0 {
		return emitTree(e, lowering.KernelSpec{Op: ops.ReduceSum | ops.Tree, Out: out, In: in}, r.Tree, 0, 0, func(run blockRun) exec.Kernel {
			return inTree(reduceAxes(r.Axes, sumAxis, sumNarrow), 1, run)
		})
	}
	if r.Unordered || in[0].Spec.Ragged != nil {
		return reduction(e, ops.ReduceSum, r.Axes, out, in, kernel)
	}
	return lowerInOrder(e, ops.ReduceSum, r.Axes, out, in, kernel)
}

// sumAxis writes x summed over one axis to y.
func sumAxis(a *exec.Args, y, x array.Array, axis int) {
	outer, n, inner := x.Type.Around(axis)
	switch x.Type.DType {
	case graph.F64:
		sumFloat(a, data[float64](y), data[float64](x), outer, n, inner)
	case graph.F32:
		sumFloat(a, data[float32](y), data[float32](x), outer, n, inner)
	case graph.I32:
		foldInt(data[int32](y), data[int32](x), outer, n, inner, 0, foldAdd[int32])
	case graph.I64:
		foldInt(data[int64](y), data[int64](x), outer, n, inner, 0, foldAdd[int64])
	case graph.U32:
		foldInt(data[uint32](y), data[uint32](x), outer, n, inner, 0, foldAdd[uint32])
	case graph.U8:
		foldInt(data[uint8](y), data[uint8](x), outer, n, inner, 0, foldAdd[uint8])
	}
}

// sumFloat sums x[outer,n,inner] over its middle dimension to y[outer,inner]. The order
// of addition is the order of vector.Sum for every inner.
func sumFloat[T float](a *exec.Args, y, x []T, outer, n, inner int) {
	if inner == 1 {
		grain := 1 + 4*dear/(1+n)
		exec.Share(a, outer, grain, lineSums[T]{y, x, n})
		return
	}
	// A block of columns fills whole cache lines.
	const block = 256
	blocks := (inner + block - 1) / block
	grain := 1 + 4*dear/(1+n*min(inner, block))
	exec.Share(a, outer*blocks, grain, blockSums[T]{y, x, n, inner, block, exec.RoomsOf[float64](a, vector.SumRoom)})
}

type lineSums[T float] struct {
	y, x []T
	n    int
}

func (w *lineSums[T]) Piece(lo, hi int) {
	for o := lo; o < hi; o++ {
		w.y[o] = T(vector.Sum(w.x[o*w.n:][:w.n]))
	}
}

// sumNarrow writes x of bf16 or f16 summed over its last axis to y of f32.
func sumNarrow(a *exec.Args, y, x array.Array) {
	outer, n, _ := x.Type.Around(x.Type.Rank() - 1)
	exec.Share(a, outer, 1+4*dear/(1+n), narrowSums{x, y, n, exec.RoomsOf[float32](a, n)})
}

type narrowSums struct {
	x, y  array.Array
	n     int
	rooms *exec.Rooms[float32]
}

func (w *narrowSums) Piece(lo, hi int) {
	wide, y, size := w.rooms.Take(), data[float32](w.y), 2*w.n
	for o := lo; o < hi; o++ {
		widenRow(wide, w.x.Bytes()[o*size:][:size], w.x.Type.DType)
		y[o] = float32(vector.Sum(wide))
	}
}

type blockSums[T float] struct {
	y, x            []T
	n, inner, block int
	rooms           *exec.Rooms[float64]
}

func (w *blockSums[T]) Piece(lo, hi int) {
	room, blocks := w.rooms.Take(), (w.inner+w.block-1)/w.block
	for k := lo; k < hi; k++ {
		o, j := k/blocks, k%blocks*w.block
		vector.SumColumns(w.y[o*w.inner+j:][:min(w.block, w.inner-j)], w.x[min(o*w.n*w.inner+j, len(w.x)):], w.n, w.inner, room)
	}
}

func foldAdd[T numeric](acc, rows []T) {
	for n := len(acc); n > 0 && len(rows) > 0; rows = rows[n:] {
		for j, v := range rows[:n] {
			acc[j] += v
		}
	}
}

func (reduceSumOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "t[..] without axes", Formula: "y = Σ x over axes",
		Params: "axes: ascending; unordered: let each rank sum its part and add the parts, instead of the same bits on every mesh; tree: blocks of axis 0 whose sums are added in pairs; Config.Exact sets it and adds the ranks' sums in pairs too, for the same bits on every mesh, whereas without Config.Exact ranks' sums are added in rank order",
		Notes:  "Sums in f64 (f32 for bf16 and f16), axis by axis, from the last to the first; the sums over an axis are rounded to the type of x (bf16 and f16: to f32) before the next axis. The sum over an axis is made as 8 sums, of every 8th index upwards, that are added in pairs 4, 2 and 1 apart."}
}

// reduceProdOp multiplies over axes, starting with the last axis, and along each axis from
// its first element to its last. Floats are multiplied in f64, rounding the product to the
// element type after each axis. Products of bf16 and f16 are rounded to f32 instead, and to
// the element type after the last axis. The bits are the same on every mesh. The product of
// no elements is 1.
type reduceProdOp struct {
	Axes []int
}

var _ primitive = reduceProdOp{}

// ReduceProd returns the product of x over ascending axes, defaulting to all axes.
func ReduceProd(x *graph.Value, axes ...int) *graph.Value {
	return graph.Apply1(reduceProdOp{orAll(x, axes)}, x)
}

// over returns the same reduction over other axes, for one step of the lowering.
func (reduceProdOp) over(axes []int) graph.Primitive { return reduceProdOp{axes} }

func (reduceProdOp) Name() string { return "reduce_prod" }

func (r reduceProdOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if in[0].DType == graph.Bool {
		return nil, fmt.Errorf("element type bool is not multiplied; convert with convert_element_type, or use reduce_min")
	}
	return inferReduce(in, r.Axes)
}

// VJP multiplies in pairs, level by level, and goes back through the levels: each
// factor's derivative is the product of the others. Avoiding division, it handles
// zeros.
func (r reduceProdOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, g := e.In[0], ct[0]
	if len(r.Axes) == 0 {
		return []*graph.Value{g}, nil
	}
	// The reduced dimensions follow the leading ones, keeping rows in expert order first, and
	// precede the others: [lead.., n, rest].
	at := r.Axes[0]
	perm := slices.Concat(kept(at, nil), r.Axes, kept(x.Rank(), r.Axes)[at:])
	order := make([]int, len(perm)) // inverse
	moved := make([]int, len(perm))
	for i, d := range perm {
		order[d], moved[i] = i, x.Dim(d)
	}
	n, rest := 1, 1
	for i, d := range moved[at:] {
		if i < len(r.Axes) {
			n *= d
		} else {
			rest *= d
		}
	}
	shape := func(n int) []int { return slices.Concat(moved[:at], []int{n, rest}) }
	if n == 0 || g.Type.Len() == 0 {
		return nil, nil
	}
	levels := []*graph.Value{Reshape(arrange(x, order), shape(n)...)}
	for level := levels[0]; level.Dim(at) > 1; levels = append(levels, level) {
		n := level.Dim(at)
		prod := Mul(SliceInDim(level, at, 0, n/2), SliceInDim(level, at, n/2, n/2*2))
		if n%2 > 0 {
			prod = Concatenate(at, prod, SliceInDim(level, at, n-1, n))
		}
		level = prod
	}
	d := Reshape(g, shape(1)...)
	for i := len(levels) - 2; i >= 0; i-- {
		level, n := levels[i], levels[i].Dim(at)
		half := SliceInDim(d, at, 0, n/2)
		parts := []*graph.Value{Mul(half, SliceInDim(level, at, n/2, n/2*2)), Mul(half, SliceInDim(level, at, 0, n/2))}
		if n%2 > 0 {
			parts = append(parts, SliceInDim(d, at, n/2, n/2+1))
		}
		d = Concatenate(at, parts...)
	}
	return []*graph.Value{arrange(Reshape(d, moved...), perm)}, nil
}

func (r reduceProdOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return placeReduce(c, r.Axes)
}

func (r reduceProdOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return lowerInOrder(e, ops.ReduceProd, r.Axes, out, in, func(axes []int) exec.Kernel { return reduceAxes(axes, prodAxis, nil) })
}

// prodAxis writes x multiplied over one axis to y.
func prodAxis(a *exec.Args, y, x array.Array, axis int) {
	outer, n, inner := x.Type.Around(axis)
	switch x.Type.DType {
	case graph.F64:
		foldFloat(a, data[float64](y), data[float64](x), outer, n, inner, 1, foldMul[float64, float64])
	case graph.F32:
		foldFloat(a, data[float32](y), data[float32](x), outer, n, inner, 1, foldMul[float64, float32])
	case graph.I32:
		foldInt(data[int32](y), data[int32](x), outer, n, inner, 1, foldMul[int32, int32])
	case graph.I64:
		foldInt(data[int64](y), data[int64](x), outer, n, inner, 1, foldMul[int64, int64])
	case graph.U32:
		foldInt(data[uint32](y), data[uint32](x), outer, n, inner, 1, foldMul[uint32, uint32])
	case graph.U8:
		foldInt(data[uint8](y), data[uint8](x), outer, n, inner, 1, foldMul[uint8, uint8])
	}
}

func foldMul[A, T numeric](acc []A, rows []T) {
	if len(acc) == 1 {
		s := acc[0]
		for _, v := range rows {
			s *= A(v)
		}
		acc[0] = s
		return
	}
	for n := len(acc); n > 0 && len(rows) > 0; rows = rows[n:] {
		for j, v := range rows[:n] {
			acc[j] *= A(v)
		}
	}
}

func (reduceProdOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "t[..] without axes", Formula: "y = Π x over axes", Params: "axes: ascending",
		Notes: "Products in f64, axis by axis, from the last to the first, each from index 0 up; the products over an axis are rounded to the type of x (bf16 and f16: to f32) before the next axis."}
}

// reduceExtremeOp is the family of reduce_max and reduce_min: the largest or the
// smallest element over axes. A NaN wins; 0 is larger than -0, and true is larger
// than false. The maximum of no elements is -Inf, or the least value of an integer
// type, and the minimum is +Inf, or the greatest value of an integer type.
type reduceExtremeOp struct {
	op   ops.Op
	Axes []int
}

var _ primitive = reduceExtremeOp{}

// ReduceMax returns the largest element of x over ascending axes, defaulting to all
// axes.
func ReduceMax(x *graph.Value, axes ...int) *graph.Value {
	return graph.Apply1(reduceExtremeOp{ops.ReduceMax, orAll(x, axes)}, x)
}

// ReduceMin returns the smallest element of x over ascending axes, defaulting to all
// axes.
func ReduceMin(x *graph.Value, axes ...int) *graph.Value {
	return graph.Apply1(reduceExtremeOp{ops.ReduceMin, orAll(x, axes)}, x)
}

// over returns the same reduction over other axes, for one step of the lowering.
func (r reduceExtremeOp) over(axes []int) graph.Primitive { return reduceExtremeOp{r.op, axes} }

func (r reduceExtremeOp) Name() string { return r.op.String() }

func (r reduceExtremeOp) Infer(in []graph.Type) ([]graph.Type, error) { return inferReduce(in, r.Axes) }

// VJP splits the cotangent evenly among the elements attaining the extreme value.
func (r reduceExtremeOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x := e.In[0]
	dims := kept(x.Rank(), r.Axes)
	spread := func(v *graph.Value) *graph.Value { return BroadcastInDim(v, x.Type.Shape, dims...) }
	at := ConvertElementType(Eq(x, spread(e.Out[0])), x.Type.DType)
	count := graph.Apply1(reduceSumOp{Axes: r.Axes, Unordered: true}, at)
	return []*graph.Value{Mul(at, spread(Div(ct[0], count)))}, nil
}

func (r reduceExtremeOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return placeReduce(c, r.Axes)
}

func (r reduceExtremeOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	step := maxAxis
	if r.op == ops.ReduceMin {
		step = minAxis
	}
	return lowerAnyOrder(e, r.op, r.Axes, out, in, func(axes []int) exec.Kernel { return reduceAxes(axes, step, nil) })
}

func maxAxis(a *exec.Args, y, x array.Array, axis int) {
	outer, n, inner := x.Type.Around(axis)
	switch x.Type.DType {
	case graph.F64:
		pickFloat(a, data[float64](y), data[float64](x), outer, n, inner, vector.Largest[float64], vector.Maximum[float64])
	case graph.F32:
		pickFloat(a, data[float32](y), data[float32](x), outer, n, inner, vector.Largest[float32], vector.Maximum[float32])
	case graph.I32:
		foldInt(data[int32](y), data[int32](x), outer, n, inner, math.MinInt32, foldMax[int32])
	case graph.I64:
		foldInt(data[int64](y), data[int64](x), outer, n, inner, math.MinInt64, foldMax[int64])
	case graph.U32:
		foldInt(data[uint32](y), data[uint32](x), outer, n, inner, 0, foldMax[uint32])
	case graph.U8, graph.Bool:
		foldInt(work.Bits[uint8](y), work.Bits[uint8](x), outer, n, inner, 0, foldMax[uint8])
	}
}

func minAxis(a *exec.Args, y, x array.Array, axis int) {
	outer, n, inner := x.Type.Around(axis)
	switch x.Type.DType {
	case graph.F64:
		pickFloat(a, data[float64](y), data[float64](x), outer, n, inner, vector.Smallest[float64], vector.Minimum[float64])
	case graph.F32:
		pickFloat(a, data[float32](y), data[float32](x), outer, n, inner, vector.Smallest[float32], vector.Minimum[float32])
	case graph.I32:
		foldInt(data[int32](y), data[int32](x), outer, n, inner, math.MaxInt32, foldMin[int32])
	case graph.I64:
		foldInt(data[int64](y), data[int64](x), outer, n, inner, math.MaxInt64, foldMin[int64])
	case graph.U32:
		foldInt(data[uint32](y), data[uint32](x), outer, n, inner, math.MaxUint32, foldMin[uint32])
	case graph.U8:
		foldInt(data[uint8](y), data[uint8](x), outer, n, inner, math.MaxUint8, foldMin[uint8])
	case graph.Bool:
		foldInt(work.Bits[uint8](y), work.Bits[uint8](x), outer, n, inner, 1, foldMin[uint8])
	}
}

// pickFloat reduces x[outer,n,inner] over its middle dimension to y[outer,inner]. If inner
// is 1 it calls line, returning the extreme of a line, and otherwise pair, setting each z to
// the extreme of x and y. Every NaN of the result has the same bits, making the result
// independent of the order.
func pickFloat[T float](a *exec.Args, y, x []T, outer, n, inner int, line func([]T) T, pair func(z, x, y []T)) {
	exec.Share(a, outer, 1+4*dear/(1+n*inner), extremeLines[T]{y, x, n, inner, line, pair})
}

type extremeLines[T float] struct {
	y, x     []T
	n, inner int
	line     func([]T) T
	pair     func(z, x, y []T)
}

func (w *extremeLines[T]) Piece(lo, hi int) {
	n, inner := w.n, w.inner
	for o := lo; o < hi; o++ {
		to, rows := w.y[o*inner:][:inner], w.x[o*n*inner:][:n*inner]
		if inner == 1 {
			to[0] = w.line(rows)
		} else {
			for j := range to {
				to[j] = w.line(nil)
			}
			for ; len(rows) > 0 && inner > 0; rows = rows[inner:] {
				w.pair(to, to, rows[:inner])
			}
		}
		for j, v := range to {
			if v != v {
				to[j] = T(math.NaN())
			}
		}
	}
}

func foldMax[T int32 | int64 | uint32 | uint8](acc, rows []T) {
	for n := len(acc); n > 0 && len(rows) > 0; rows = rows[n:] {
		for j, v := range rows[:n] {
			acc[j] = max(acc[j], v)
		}
	}
}

func foldMin[T int32 | int64 | uint32 | uint8](acc, rows []T) {
	for n := len(acc); n > 0 && len(rows) > 0; rows = rows[n:] {
		for j, v := range rows[:n] {
			acc[j] = min(acc[j], v)
		}
	}
}

func (r reduceExtremeOp) Doc() graph.Doc {
	extreme := "max"
	if r.op == ops.ReduceMin {
		extreme = "min"
	}
	return graph.Doc{Args: "x t[..]", Results: "t[..] without axes", Formula: "y = " + extreme + " x over axes",
		Params: "axes: ascending", Notes: "A NaN wins. The cotangent is split evenly among ties."}
}
