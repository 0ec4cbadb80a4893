package primitives

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/norm"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// logSumExpOp is the logarithm of a sum of exponentials along an axis.
type logSumExpOp struct{ Axis int }

var _ primitive = logSumExpOp{}

// LogSumExp returns log Σ exp(x) along an axis of x[..], a float type; the result
// does not have that axis. A negative axis counts from the end. For no elements,
// and for elements that are all -Inf, it is -Inf; with an element +Inf it is +Inf.
func LogSumExp(x *graph.Value, axis int) *graph.Value {
	return graph.Apply1(logSumExpOp{fromEnd(x, axis)}, x)
}

func (logSumExpOp) Name() string { return "logsumexp" }

func (p logSumExpOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if _, err := inferAlong(in, 1, p.Axis); err != nil {
		return nil, err
	}
	return []graph.Type{without(in[0], []int{p.Axis})}, nil
}

func (p logSumExpOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x := e.In[0]
	return []*graph.Value{Mul(Softmax(x, p.Axis), along(ct[0], x, p.Axis))}, nil
}

func (p logSumExpOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	n := c.Type(0).Rank()
	return c.Place(sharding.Factors{In: [][]int{rowDims(n, p.Axis)}, Out: [][]int{kept(n, []int{p.Axis})}, RowWise: true})
}

func (p logSumExpOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return floatKernel(e, ops.LogSumExp, out, in, logSumExpKernel[float32](p.Axis), logSumExpKernel[float64](p.Axis))
}

func logSumExpKernel[T float](axis int) exec.Kernel {
	return func(a *exec.Args) error {
		x, y := data[T](a.In[0]), data[T](a.Out[0])
		if rows, n, inner := a.In[0].Type.Around(axis); inner == 1 {
			exec.Share(a, rows, 1+8*dear/(1+n), logSumExpRows[T]{y, x, n})
			return nil
		}
		eachLine(a, a.In[0].Type, axis, [][]T{x}, nil, func(k int, in, _ [][]T) {
			norm.LogSumExpLines(y[k:k+1], in[0], len(in[0]))
		})
		return nil
	}
}

type logSumExpRows[T float] struct {
	y, x []T
	n    int
}

func (w *logSumExpRows[T]) Piece(lo, hi int) {
	norm.LogSumExpLines(w.y[lo:hi], w.x[lo*w.n:hi*w.n], w.n)
}

func (logSumExpOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..]", Results: "f[..] without axis", Formula: "y = log Σ exp(x) along axis", Params: "axis: of x, counted from the front; without it, 0, where jax.nn takes the last",
		Notes: "Shifted by the largest x, so that nothing overflows. Of nothing but -inf it is -inf, of anything with inf inf."}
}
