package primitives

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// swigluOp gates one value by another; swigluGradOp gives both cotangents at once.
type (
	swigluOp     struct{}
	swigluGradOp struct{}
)

var (
	_ primitive = swigluOp{}
	_ primitive = swigluGradOp{}
)

// SwiGLU returns silu(gate) · up for values of the same float type, without storing
// silu(gate). Source: Shazeer, "GLU variants improve transformer" (2020).
func SwiGLU(gate, up *graph.Value) *graph.Value {
	return graph.Apply1(swigluOp{}, gate, up)
}

func (swigluOp) Name() string     { return "swiglu" }
func (swigluGradOp) Name() string { return "swiglu_grad" }

func (swigluOp) Infer(in []graph.Type) ([]graph.Type, error) { return inferAlike(in, 2) }

func (swigluGradOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if _, err := inferAlike(in, 3); err != nil {
		return nil, err
	}
	return in[:2], nil
}

func (swigluOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return graph.Apply(swigluGradOp{}, e.In[0], e.In[1], ct[0]), nil
}

// VJP differentiates dgate = ct·up·silu'(gate) and dup = ct·silu(gate).
func (swigluGradOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	gate, up, c := e.In[0], e.In[1], e.In[2]
	g := vjp.Instantiate(ct[0], e.Out[0])
	h := vjp.Instantiate(ct[1], e.Out[1])
	slope := func(v *graph.Value) *graph.Value { return graph.Apply1(siluGradOp{}, gate, v) }
	return []*graph.Value{
		Add(Mul(Mul(Mul(g, c), up), siluSecond(gate)), slope(Mul(h, c))),
		slope(Mul(g, c)),
		Add(slope(Mul(g, up)), Mul(h, SiLU(gate))),
	}, nil
}

// Pointwise says that the result is a constant, in any placement, if the arguments are constants.
func (swigluOp) Pointwise() {}

func (swigluOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), 2, 1, sharding.NotLinear))
}

func (swigluGradOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), 3, 2, sharding.NotLinear))
}

func (swigluOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.SwiGLU, Out: out, In: in, Elementwise: true, Kernel: inFloat(swigluKernel[float32], swigluKernel[float64])})
}

func (swigluGradOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.SwiGLUGrad, Out: out, In: in, Elementwise: true, Kernel: inFloat(swigluGradKernel[float32], swigluGradKernel[float64])})
}

func swigluKernel[T float](a *exec.Args) error {
	gate, up, y := data[T](a.In[0]), data[T](a.In[1]), data[T](a.Out[0])
	exec.Share(a, len(y), cheap, swigluElements[T]{y, gate, up})
	return nil
}

type swigluElements[T float] struct{ y, gate, up []T }

func (w *swigluElements[T]) Piece(lo, hi int) {
	vector.SwiGLU(w.y[lo:hi], w.gate[lo:hi], w.up[lo:hi])
}

func swigluGradKernel[T float](a *exec.Args) error {
	gate, up, ct := data[T](a.In[0]), data[T](a.In[1]), data[T](a.In[2])
	dgate, dup := data[T](a.Out[0]), data[T](a.Out[1])
	exec.Share(a, len(dup), cheap, swigluGradElements[T]{dgate, dup, gate, up, ct})
	return nil
}

type swigluGradElements[T float] struct{ dgate, dup, gate, up, ct []T }

func (w *swigluGradElements[T]) Piece(lo, hi int) {
	vector.SwiGLUGrad(w.dgate[lo:hi], w.dup[lo:hi], w.gate[lo:hi], w.up[lo:hi], w.ct[lo:hi])
}

func (swigluOp) Doc() graph.Doc {
	return graph.Doc{Args: "gate f[..], up f[..]", Results: "f[..]", Formula: "y = gate / (1 + e^-gate) · up"}
}

func (swigluGradOp) Doc() graph.Doc {
	return graph.Doc{Args: "gate f[..], up f[..], ct f[..]", Results: "f[..], f[..]",
		Formula: "dgate = ct · up · s · (1 + gate(1-s)), dup = ct · gate · s, s = 1/(1 + e^-gate)"}
}
