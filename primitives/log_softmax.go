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

// logSoftmaxOp is the logarithm of softmax along an axis. logSoftmaxGradOp is its
// derivative.
type (
	logSoftmaxOp     struct{ Axis int }
	logSoftmaxGradOp struct{ Axis int }
)

var (
	_ primitive = logSoftmaxOp{}
	_ primitive = logSoftmaxGradOp{}
)

// LogSoftmax returns x - log Σ exp(x) along an axis of x[..], a float type; a
// negative axis counts from the end. An element -Inf stays -Inf. A line whose
// elements are all -Inf is NaN, and so is a line with a NaN or +Inf.
func LogSoftmax(x *graph.Value, axis int) *graph.Value {
	return graph.Apply1(logSoftmaxOp{fromEnd(x, axis)}, x)
}

func (logSoftmaxOp) Name() string     { return "log_softmax" }
func (logSoftmaxGradOp) Name() string { return "log_softmax_grad" }

func (p logSoftmaxOp) Infer(in []graph.Type) ([]graph.Type, error) { return inferAlong(in, 1, p.Axis) }

func (p logSoftmaxGradOp) Infer(in []graph.Type) ([]graph.Type, error) {
	return inferAlong(in, 2, p.Axis)
}

func (p logSoftmaxOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{graph.Apply1(logSoftmaxGradOp(p), e.Out[0], ct[0])}, nil
}

func (p logSoftmaxGradOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return differentiate(e, ct, func(in []*graph.Value) []*graph.Value {
		y, c := in[0], in[1]
		return []*graph.Value{Sub(c, Mul(Exp(y), sumKept(c, p.Axis)))}
	})
}

func (p logSoftmaxOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return placeAlong(c, p.Axis, 1)
}

func (p logSoftmaxGradOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return placeAlong(c, p.Axis, 2)
}

func (p logSoftmaxOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return floatKernel(e, ops.LogSoftmax, out, in, logSoftmaxKernel[float32](p.Axis), logSoftmaxKernel[float64](p.Axis))
}

func (p logSoftmaxGradOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return floatKernel(e, ops.LogSoftmaxGrad, out, in, logSoftmaxGradKernel[float32](p.Axis), logSoftmaxGradKernel[float64](p.Axis))
}

func logSoftmaxKernel[T float](axis int) exec.Kernel {
	return func(a *exec.Args) error {
		in, out := [][]T{data[T](a.In[0])}, [][]T{data[T](a.Out[0])}
		eachLine(a, a.In[0].Type, axis, in, out, func(_ int, in, out [][]T) {
			x := in[0]
			top := vector.Max(x)
			// In this order: the logarithm would be lost beside a large top.
			norm.Difference(out[0], x, float64(top), math.Log(vector.ExpTotal(x, top)))
		})
		return nil
	}
}

func logSoftmaxGradKernel[T float](axis int) exec.Kernel {
	return func(a *exec.Args) error {
		in, out := [][]T{data[T](a.In[0]), data[T](a.In[1])}, [][]T{data[T](a.Out[0])}
		eachLine(a, a.In[0].Type, axis, in, out, func(_ int, in, out [][]T) {
			y, ct := in[0], in[1]
			norm.LogSoftmaxGrad(out[0], y, ct, vector.Sum(ct))
		})
		return nil
	}
}

func (logSoftmaxOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..]", Results: "f[..]", Formula: "y = x - log Σ exp(x) along axis", Params: "axis: of x, counted from the front; without it, 0, where jax.nn takes the last",
		Notes: "Shifted by the largest x, so that nothing overflows. A line of nothing but -inf, and one with a nan or inf, is nan."}
}

func (logSoftmaxGradOp) Doc() graph.Doc {
	return graph.Doc{Args: "y f[..], ct f[..]", Results: "f[..]", Formula: "dx = ct - exp(y) · Σ ct along axis, y = log_softmax(x)", Params: "axis: of y"}
}
