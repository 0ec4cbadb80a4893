package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// reduceSumOp sums over axes, one after another from the last to the first. It adds f64
// and f32 in f64, and bf16 and f16 in f32; integers wrap. Along an axis, floats are
// added to 8 partial sums: sum k adds the elements k, k+8, k+16 and so on. Then sums
// that are 4 apart are added, then those 2 apart, then the last two.
//
// The result has the same bits on every mesh: where an axis is split, the axes
// behind it are summed, the ranks' parts are gathered, and the rest is summed.
// Unordered gives this up for speed and leaves a sum pending instead; derivatives
// use it. Sums over rows in expert order also leave a sum pending, since the order
// of such rows depends on the mesh.
type reduceSumOp struct {
	Axes      []int
	Unordered bool
	// Tree, if it is not 0, is into how many blocks axis 0 is cut. Each is summed, and
	// these sums are added in pairs, so that they do not depend on how many ranks have the
	// blocks. The sum is f32 or f64 and stays pending, as with Unordered.
	Tree int
}

var _ sharding.Blocked = reduceSumOp{}
var _ primitive = reduceSumOp{}

// ReduceSum returns the sum of x over axes, which must be ascending, or over all axes if
// none is given.
func ReduceSum(x *graph.Value, axes ...int) *graph.Value {
	return graph.Apply1(reduceSumOp{Axes: orAll(x, axes)}, x)
}

// ReduceSumUnordered is ReduceSum where each rank sums its shard, and ranks exchange only
// these sums. The last bits depend on the mesh.
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

// mostGathered is how many numbers of each index of a split dimension are gathered, at most, to
// be added in order, instead of in a tree.
const mostGathered = 16

// InBlocks implements sharding.Blocked. What leaves few numbers is summed in order.
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
// of addition is that of vector.Sum, whatever inner is.
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
