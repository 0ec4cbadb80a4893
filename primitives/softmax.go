package primitives

import (
	"math"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/norm"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// softmaxOp is the family of softmax, its logarithm, their derivatives, and the logarithm of its
// denominator, along an axis.
type softmaxOp struct {
	op   ops.Op
	Axis int
}

var _ primitive = softmaxOp{}

// Softmax returns exp(x - max) / Σ exp(x - max) along an axis of x[..], a float
// type; a negative axis counts from the end. An element -Inf gives 0. A line consisting
// of -Inf is NaN, and so is a line containing a NaN or +Inf.
func Softmax(x *graph.Value, axis int) *graph.Value {
	return graph.Apply1(softmaxOp{ops.Softmax, fromEnd(x, axis)}, x)
}

// LogSoftmax returns x - log Σ exp(x) along an axis of x[..], a float type; a
// negative axis counts from the end. An element -Inf stays -Inf. A line consisting of
// -Inf is NaN, and so is a line containing a NaN or +Inf.
func LogSoftmax(x *graph.Value, axis int) *graph.Value {
	return graph.Apply1(softmaxOp{ops.LogSoftmax, fromEnd(x, axis)}, x)
}

// LogSumExp returns log Σ exp(x) along an axis of x[..], a float type, dropping the
// axis. A negative axis counts from the end. A line without elements, or consisting of
// -Inf, gives -Inf; a line containing +Inf gives +Inf.
func LogSumExp(x *graph.Value, axis int) *graph.Value {
	return graph.Apply1(softmaxOp{ops.LogSumExp, fromEnd(x, axis)}, x)
}

// fromEnd returns the axis counted from the start; a negative axis counts from the end.
func fromEnd(x *graph.Value, axis int) int {
	if axis < 0 {
		return axis + x.Rank()
	}
	return axis
}

func (p softmaxOp) Name() string { return p.op.String() }

func (p softmaxOp) Infer(in []graph.Type) ([]graph.Type, error) {
	n := 1
	if p.op == ops.SoftmaxGrad || p.op == ops.LogSoftmaxGrad {
		n = 2
	}
	out, err := inferAlong(in, n, p.Axis)
	if err == nil && p.op == ops.LogSumExp {
		out = []graph.Type{without(in[0], []int{p.Axis})}
	}
	return out, err
}

// inferAlong returns the result type of a function with n arguments and a result of the same
// float type, working along the axis.
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
	switch p.op {
	case ops.Softmax:
		return []*graph.Value{graph.Apply1(softmaxOp{ops.SoftmaxGrad, p.Axis}, e.Out[0], ct[0])}, nil
	case ops.LogSoftmax:
		return []*graph.Value{graph.Apply1(softmaxOp{ops.LogSoftmaxGrad, p.Axis}, e.Out[0], ct[0])}, nil
	case ops.LogSumExp:
		x := e.In[0]
		return []*graph.Value{Mul(Softmax(x, p.Axis), along(ct[0], x, p.Axis))}, nil
	}
	return differentiate(e, ct, func(in []*graph.Value) []*graph.Value {
		y, c := in[0], in[1]
		if p.op == ops.LogSoftmaxGrad {
			return []*graph.Value{Sub(c, Mul(Exp(y), sumKept(c, p.Axis)))}
		}
		return []*graph.Value{Mul(y, Sub(c, sumKept(Mul(c, y), p.Axis)))}
	})
}

func (p softmaxOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	n := c.Type(0).Rank()
	dims := rowDims(n, p.Axis)
	f := sharding.Factors{Out: [][]int{dims}, RowWise: true}
	if p.op == ops.LogSumExp {
		f.Out[0] = kept(n, []int{p.Axis})
	}
	for range c.Eqn.In {
		f.In = append(f.In, dims)
	}
	return c.Place(f)
}

func (p softmaxOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return floatKernel(e, p.op, out, in, softmaxKernel[float32](p), softmaxKernel[float64](p))
}

func softmaxKernel[T float](p softmaxOp) exec.Kernel {
	f := softmaxLoop[T](p.op)
	return func(a *exec.Args) error {
		x, y := data[T](a.In[0]), data[T](a.Out[0])
		ct := x // a placeholder, not read
		if len(a.In) > 1 {
			ct = data[T](a.In[1])
		}
		t := a.In[0].Type
		switch rows, n, inner := t.Around(p.Axis); {
		case inner == 1:
			exec.Share(a, rows, 1+8*dear/(1+n), softmaxLines[T]{y, x, ct, n, len(y) / max(rows, 1), f})
		case p.op == ops.LogSumExp:
			eachLine(a, t, p.Axis, [][]T{x}, nil, func(k int, in, _ [][]T) { f(y[k:k+1], in[0], nil, n) })
		default:
			eachLine(a, t, p.Axis, [][]T{x, ct}[:len(a.In)], [][]T{y}, func(_ int, in, out [][]T) { f(out[0], in[0], in[len(in)-1], n) })
		}
		return nil
	}
}

// softmaxLines is the work on contiguous lines of n elements, with `each` results per line.
type softmaxLines[T float] struct {
	y, x, ct []T
	n, each  int
	f        func(y, x, ct []T, n int)
}

func (w *softmaxLines[T]) Piece(lo, hi int) {
	w.f(w.y[lo*w.each:hi*w.each], w.x[lo*w.n:hi*w.n], w.ct[lo*w.n:hi*w.n], w.n)
}

// softmaxLoop returns the loop over lines of n elements.
func softmaxLoop[T float](op ops.Op) func(y, x, ct []T, n int) {
	switch op {
	case ops.Softmax:
		return func(y, x, _ []T, n int) { norm.SoftmaxLines(y, x, n) }
	case ops.SoftmaxGrad:
		return norm.SoftmaxGrad[T]
	case ops.LogSumExp:
		return func(y, x, _ []T, n int) { norm.LogSumExpLines(y, x, n) }
	case ops.LogSoftmax:
		return func(y, x, _ []T, n int) {
			for ; len(x) > 0; x, y = x[n:], y[n:] {
				top := vector.Max(x[:n])
				// Subtracting top first, because adding the logarithm to a large top would lose it.
				norm.Difference(y[:n], x[:n], float64(top), math.Log(vector.ExpTotal(x[:n], top)))
			}
		}
	default:
		return func(dx, y, ct []T, n int) {
			for ; len(y) > 0; dx, y, ct = dx[n:], y[n:], ct[n:] {
				norm.LogSoftmaxGrad(dx[:n], y[:n], ct[:n], vector.Sum(ct[:n]))
			}
		}
	}
}

func (p softmaxOp) Doc() graph.Doc {
	d := graph.Doc{Args: "x f[..]", Results: "f[..]", Params: "axis: of x, counted from the front; without it, 0, where jax.nn takes the last"}
	switch p.op {
	case ops.Softmax:
		d.Formula = "y = exp(x - max) / Σ exp(x - max) along axis"
		d.Notes = "A line of nothing but -inf, and one with a nan or inf, is nan. Sums run in f64."
	case ops.LogSoftmax:
		d.Formula = "y = x - log Σ exp(x) along axis"
		d.Notes = "Shifted by the largest x, so that nothing overflows. A line of nothing but -inf, and one with a nan or inf, is nan."
	case ops.LogSumExp:
		d.Results, d.Formula = "f[..] without axis", "y = log Σ exp(x) along axis"
		d.Notes = "Shifted by the largest x, so that nothing overflows. Of nothing but -inf it is -inf, of anything with inf inf."
	case ops.SoftmaxGrad:
		return graph.Doc{Args: "y f[..], ct f[..]", Results: "f[..]", Formula: "dx = y · (ct - Σ ct·y along axis), y = softmax(x)", Params: "axis: of y"}
	case ops.LogSoftmaxGrad:
		return graph.Doc{Args: "y f[..], ct f[..]", Results: "f[..]", Formula: "dx = ct - exp(y) · Σ ct along axis, y = log_softmax(x)", Params: "axis: of y"}
	}
	return d
}
