package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// clampOp keeps its second argument between the first and the third, which
// have its shape or no dimensions. The upper bound wins where the bounds cross.
// NaN in any of the three gives NaN.
type clampOp struct{}

var _ primitive = clampOp{}

// Clamp returns min(max(x, lo), hi). The bounds have x's type, or its element
// type and no dimensions. Cotangents go to x where it lies strictly between the
// bounds, and to the bound that is crossed where x lies outside. Where x equals a
// bound no argument receives a cotangent.
func Clamp(lo, x, hi *graph.Value) *graph.Value { return graph.Apply1(clampOp{}, lo, x, hi) }

func (clampOp) Name() string { return "clamp" }

func (clampOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 3); err != nil {
		return nil, err
	}
	x := in[1]
	for i, name := range [...]string{"min", "", "max"} {
		switch b := in[i]; {
		case b.DType != x.DType:
			return nil, fmt.Errorf("%s is %s, want element type %s as x; convert one with convert_element_type", name, b, x.DType)
		case b.Rank() > 0 && !b.Equal(x):
			return nil, fmt.Errorf("%s is %s, want the shape of x or no dimensions; broadcast it with broadcast_in_dim", name, b)
		}
	}
	return in[1:2], nil
}

// VJP is the derivative of jax.lax.clamp.
func (clampOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, g := e.In[1], ct[0]
	lo, hi, zeros := spread(e.In[0], x), spread(e.In[2], x), ZerosLike(x)
	below := Where(And(Gt(lo, x), Lt(lo, hi)), g, zeros)
	above := Where(Lt(hi, x), g, zeros)
	return []*graph.Value{
		gathered(below, e.In[0]),
		Where(And(Gt(x, lo), Lt(x, hi)), g, zeros),
		gathered(above, e.In[2]),
	}, nil
}

// spread repeats a scalar to the shape of x.
func spread(b, x *graph.Value) *graph.Value {
	if b.Rank() == x.Rank() {
		return b
	}
	return BroadcastInDim(b, x.Type.Shape)
}

// gathered returns the cotangent of the value `of`: g, or the sum of g if `of` is a
// scalar.
func gathered(g, of *graph.Value) *graph.Value {
	if of.Rank() == g.Rank() {
		return g
	}
	return ReduceSumUnordered(g)
}

// Pointwise says that the result is a constant, in any placement, if the arguments are constants.
func (clampOp) Pointwise() {}

func (clampOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	f := sharding.Elementwise(c.Type(1), 3, 1, sharding.NotLinear)
	for i := range f.In {
		if c.Type(i).Rank() == 0 {
			f.In[i] = nil
		}
	}
	return c.Place(f)
}

func (clampOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.Clamp, Out: out, In: in, Elementwise: true, Kernel: func(a *exec.Args) error {
		switch a.Out[0].Type.DType {
		case graph.F64:
			clampAll(a, data[float64])
		case graph.I32:
			clampAll(a, data[int32])
		case graph.I64:
			clampAll(a, data[int64])
		case graph.U32:
			clampAll(a, data[uint32])
		case graph.U8:
			clampAll(a, data[uint8])
		case graph.Bool:
			clampAll(a, work.Bits[uint8])
		default:
			tiled(a, cheap, clampTile)
		}
		return nil
	}})
}

func clampTile(_ *exec.Args, _, _ int, y []float32, x [][]float32) {
	if len(x[0]) == 1 && len(x[2]) == 1 {
		vector.Clamp(y, x[1], x[0][0], x[2][0])
	} else {
		clamp(y, x[0], x[1], x[2])
	}
}

// clampAll clamps arrays whose elements `of` returns.
func clampAll[T number](a *exec.Args, of func(array.Array) []T) {
	lo, x, hi, y := of(a.In[0]), of(a.In[1]), of(a.In[2]), of(a.Out[0])
	exec.Share(a, len(y), cheap, clampedElements[T]{y, lo, x, hi})
}

type clampedElements[T number] struct{ y, lo, x, hi []T }

func (w *clampedElements[T]) Piece(from, to int) {
	lo, hi := w.lo, w.hi
	if len(lo) == len(w.y) {
		lo = lo[from:to]
	}
	if len(hi) == len(w.y) {
		hi = hi[from:to]
	}
	clamp(w.y[from:to], lo, w.x[from:to], hi)
}

// clamp writes min(max(x, lo), hi) to y. A bound of one element is used for all.
func clamp[T number](y, lo, x, hi []T) {
	if len(lo) == 1 && len(hi) == 1 {
		l, h := lo[0], hi[0]
		for i := range y {
			y[i] = min(max(x[i], l), h)
		}
		return
	}
	l, h := 0, 0
	for i := range y {
		if len(lo) > 1 {
			l = i
		}
		if len(hi) > 1 {
			h = i
		}
		y[i] = min(max(x[i], lo[l]), hi[h])
	}
}

func (clampOp) Doc() graph.Doc {
	return graph.Doc{Args: "min t[..] | t[], x t[..], max t[..] | t[]", Results: "t[..]", Formula: "y = min(max(x, min), max)",
		Notes: "NaN in any of the three gives NaN. Where x equals a bound, nobody receives the cotangent."}
}
