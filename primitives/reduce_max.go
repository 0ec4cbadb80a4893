package primitives

import (
	"math"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// reduceExtremeOp is the family of reduce_max and reduce_min: the largest or the
// smallest element over axes. A NaN wins; 0 is larger than -0, and true is larger
// than false. Over no elements the maximum is -Inf, or the least value of an
// integer type, and the minimum is +Inf, or the greatest value of an integer type.
type reduceExtremeOp struct {
	op   ops.Op
	Axes []int
}

var _ primitive = reduceExtremeOp{}

// ReduceMax returns the largest element of x over axes, which must be ascending, or
// over all axes if none is given.
func ReduceMax(x *graph.Value, axes ...int) *graph.Value {
	return graph.Apply1(reduceExtremeOp{ops.ReduceMax, orAll(x, axes)}, x)
}

// ReduceMin returns the smallest element of x over axes, which must be ascending, or
// over all axes if none is given.
func ReduceMin(x *graph.Value, axes ...int) *graph.Value {
	return graph.Apply1(reduceExtremeOp{ops.ReduceMin, orAll(x, axes)}, x)
}

// over returns the same reduction over other axes, for one step of the lowering.
func (r reduceExtremeOp) over(axes []int) graph.Primitive { return reduceExtremeOp{r.op, axes} }

func (r reduceExtremeOp) Name() string { return r.op.String() }

func (r reduceExtremeOp) Infer(in []graph.Type) ([]graph.Type, error) { return inferReduce(in, r.Axes) }

// VJP splits the cotangent evenly among the elements that have the extreme
// value.
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

// pickFloat reduces x[outer,n,inner] over its middle dimension to y[outer,inner]. It
// calls line, which returns the extreme of a line, where inner is 1, and elsewhere pair,
// which sets each z to the extreme of x and y. Every NaN of the result has the same
// bits, so that the result does not depend on the order.
func pickFloat[T float](a *exec.Args, y, x []T, outer, n, inner int, line func([]T) T, pair func(z, x, y []T)) {
	exec.Share(a, outer, 1+4*dear/(1+n*inner), picked[T]{y, x, n, inner, line, pair})
}

type picked[T float] struct {
	y, x     []T
	n, inner int
	line     func([]T) T
	pair     func(z, x, y []T)
}

func (w *picked[T]) Piece(lo, hi int) {
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
