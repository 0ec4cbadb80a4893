package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// reduceProdOp multiplies over axes: over the last axis first, and over each axis from
// its first element to its last. Floats are multiplied in f64. After each axis the
// product is rounded to the element type, but of bf16 and f16 to f32, and to the element
// type after the last axis. The bits are the same on every mesh. The product of no
// elements is 1.
type reduceProdOp struct {
	Axes []int
}

var _ primitive = reduceProdOp{}

// ReduceProd returns the product of x over axes, which must be ascending, or over all
// axes if none is given.
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

// VJP multiplies in pairs, level by level, and goes back through the levels:
// each factor's derivative is the product of the others, with no division, so
// zeros do no harm.
func (r reduceProdOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, g := e.In[0], ct[0]
	if len(r.Axes) == 0 {
		return []*graph.Value{g}, nil
	}
	// The factors come after the leading dimensions, which stay where they are, as rows in expert
	// order must, and before the other ones: [lead.., n, rest].
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
