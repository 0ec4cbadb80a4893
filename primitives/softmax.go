package primitives

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/norm"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// softmaxOp normalises exponentials along an axis; softmaxGradOp is its derivative.
type (
	softmaxOp     struct{ Axis int }
	softmaxGradOp struct{ Axis int }
)

var (
	_ primitive = softmaxOp{}
	_ primitive = softmaxGradOp{}
)

// Softmax returns exp(x - max) / Σ exp(x - max) along an axis of x[..], a float
// type; a negative axis counts from the end. An element -Inf gives 0. A line whose
// elements are all -Inf is NaN, and so is a line with a NaN or +Inf.
func Softmax(x *graph.Value, axis int) *graph.Value {
	return graph.Apply1(softmaxOp{fromEnd(x, axis)}, x)
}

// fromEnd returns the axis counted from the start; a negative axis counts from the end.
func fromEnd(x *graph.Value, axis int) int {
	if axis < 0 {
		return axis + x.Rank()
	}
	return axis
}

func (softmaxOp) Name() string     { return "softmax" }
func (softmaxGradOp) Name() string { return "softmax_grad" }

func (p softmaxOp) Infer(in []graph.Type) ([]graph.Type, error)     { return inferAlong(in, 1, p.Axis) }
func (p softmaxGradOp) Infer(in []graph.Type) ([]graph.Type, error) { return inferAlong(in, 2, p.Axis) }

// inferAlong returns the type of the result of a function of n arguments. The arguments
// and the result have the same float type, which has the axis.
func inferAlong(in []graph.Type, n, axis int) ([]graph.Type, error) {
	if err := arity(in, n); err != nil {
		return nil, err
	}
	if err := alike(in); err != nil {
		return nil, err
	}
	if err := floating(in[0]); err != nil {
		return nil, err
	}
	if err := atLeast(in[0], 1); err != nil {
		return nil, err
	}
	return in[:1], axisOf(in[0], axis)
}

func (p softmaxOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{graph.Apply1(softmaxGradOp(p), e.Out[0], ct[0])}, nil
}

func (p softmaxGradOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return differentiate(e, ct, func(in []*graph.Value) []*graph.Value {
		y, c := in[0], in[1]
		return []*graph.Value{Mul(y, Sub(c, sumKept(Mul(c, y), p.Axis)))}
	})
}

func (p softmaxOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return placeAlong(c, p.Axis, 1)
}

func (p softmaxGradOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return placeAlong(c, p.Axis, 2)
}

// placeAlong places n arguments and a result, all of the same shape. The axis is whole.
func placeAlong(c *sharding.Context, axis, n int) (sharding.Decision, error) {
	dims := rowDims(c.Type(0).Rank(), axis)
	f := sharding.Factors{Out: [][]int{dims}, RowWise: true}
	for range n {
		f.In = append(f.In, dims)
	}
	return c.Place(f)
}

func (p softmaxOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return floatKernel(e, ops.Softmax, out, in, softmaxKernel[float32](p.Axis), softmaxKernel[float64](p.Axis))
}

func (p softmaxGradOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return floatKernel(e, ops.SoftmaxGrad, out, in, softmaxGradKernel[float32](p.Axis), softmaxGradKernel[float64](p.Axis))
}

func softmaxKernel[T float](axis int) exec.Kernel {
	return func(a *exec.Args) error {
		x, y := data[T](a.In[0]), data[T](a.Out[0])
		if rows, n, inner := a.In[0].Type.Around(axis); inner == 1 {
			exec.Share(a, rows, 1+8*dear/(1+n), softmaxRows[T]{y, x, n})
			return nil
		}
		eachLine(a, a.In[0].Type, axis, [][]T{x}, [][]T{y}, func(_ int, in, out [][]T) {
			norm.SoftmaxLines(out[0], in[0], len(in[0]))
		})
		return nil
	}
}

func softmaxGradKernel[T float](axis int) exec.Kernel {
	return func(a *exec.Args) error {
		y, ct, dx := data[T](a.In[0]), data[T](a.In[1]), data[T](a.Out[0])
		if rows, n, inner := a.In[0].Type.Around(axis); inner == 1 {
			exec.Share(a, rows, 1+8*dear/(1+n), softmaxGradRows[T]{dx, y, ct, n})
			return nil
		}
		eachLine(a, a.In[0].Type, axis, [][]T{y, ct}, [][]T{dx}, func(_ int, in, out [][]T) {
			norm.SoftmaxGrad(out[0], in[0], in[1], len(in[0]))
		})
		return nil
	}
}

type softmaxRows[T float] struct {
	y, x []T
	n    int
}

func (w *softmaxRows[T]) Piece(lo, hi int) {
	norm.SoftmaxLines(w.y[lo*w.n:hi*w.n], w.x[lo*w.n:hi*w.n], w.n)
}

type softmaxGradRows[T float] struct {
	dx, y, ct []T
	n         int
}

func (w *softmaxGradRows[T]) Piece(lo, hi int) {
	lo, hi = lo*w.n, hi*w.n
	norm.SoftmaxGrad(w.dx[lo:hi], w.y[lo:hi], w.ct[lo:hi], w.n)
}

func (softmaxOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..]", Results: "f[..]", Formula: "y = exp(x - max) / Σ exp(x - max) along axis", Params: "axis: of x, counted from the front; without it, 0, where jax.nn takes the last",
		Notes: "A line of nothing but -inf, and one with a nan or inf, is nan. Sums run in f64."}
}

func (softmaxGradOp) Doc() graph.Doc {
	return graph.Doc{Args: "y f[..], ct f[..]", Results: "f[..]", Formula: "dx = y · (ct - Σ ct·y along axis), y = softmax(x)", Params: "axis: of y"}
}
