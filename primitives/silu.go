package primitives

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// siluOp is x·sigmoid(x); siluGradOp is its derivative times a cotangent.
type (
	siluOp     struct{}
	siluGradOp struct{}
)

var (
	_ primitive = siluOp{}
	_ primitive = siluGradOp{}
)

// SiLU returns x / (1 + e⁻ˣ) for x of a float type. At -Inf it is NaN, as in
// JAX. Source: Elfwing and others, "Sigmoid-weighted linear units" (2017).
func SiLU(x *graph.Value) *graph.Value { return graph.Apply1(siluOp{}, x) }

func (siluOp) Name() string     { return "silu" }
func (siluGradOp) Name() string { return "silu_grad" }

func (siluOp) Infer(in []graph.Type) ([]graph.Type, error)     { return inferAlike(in, 1) }
func (siluGradOp) Infer(in []graph.Type) ([]graph.Type, error) { return inferAlike(in, 2) }

// inferAlike returns the type of the result of an elementwise function. Its n arguments
// and its result have the same float type.
func inferAlike(in []graph.Type, n int) ([]graph.Type, error) {
	if err := arity(in, n); err != nil {
		return nil, err
	}
	if err := alike(in); err != nil {
		return nil, err
	}
	return in[:1], floating(in[0])
}

func (siluOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{graph.Apply1(siluGradOp{}, e.In[0], ct[0])}, nil
}

func (siluGradOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, c, g := e.In[0], e.In[1], ct[0]
	return []*graph.Value{Mul(Mul(g, c), siluSecond(x)), graph.Apply1(siluGradOp{}, x, g)}, nil
}

// siluSecond returns silu's second derivative, s(1-s)(2 + x(1-2s)) with s = 1/(1 + e⁻ˣ).
func siluSecond(x *graph.Value) *graph.Value {
	one, s := OnesLike(x), Logistic(x)
	return Mul(Mul(s, Sub(one, s)), AddScalar(Mul(x, Sub(one, MulScalar(s, 2))), 2))
}

// Pointwise says that the result is a constant, in any placement, if the arguments are constants.
func (siluOp) Pointwise() {}

func (siluOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), 1, 1, sharding.NotLinear))
}

// Pointwise says that the result is a constant, in any placement, if the arguments are constants.
func (siluGradOp) Pointwise() {}

func (siluGradOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), 2, 1, sharding.NotLinear))
}

func (siluOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.SiLU, Out: out, In: in, Elementwise: true, Kernel: inFloat(siluKernel(vector.SiLU[float32]), siluKernel(vector.SiLU[float64]))})
}

func (siluGradOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.SiLUGrad, Out: out, In: in, Elementwise: true, Kernel: inFloat(siluGradKernel(vector.SiLUGrad[float32]), siluGradKernel(vector.SiLUGrad[float64]))})
}

func siluKernel[T float](f func(y, x []T)) exec.Kernel {
	return func(a *exec.Args) error {
		each1(a, cheap, f)
		return nil
	}
}

func siluGradKernel[T float](f func(dx, x, ct []T)) exec.Kernel {
	return func(a *exec.Args) error {
		each2(a, cheap, f)
		return nil
	}
}

func (siluOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..]", Results: "f[..]", Formula: "y = x / (1 + e⁻ˣ)"}
}

func (siluGradOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..], ct f[..]", Results: "f[..]", Formula: "dx = ct · s · (1 + x(1-s)), s = 1/(1 + e⁻ˣ)"}
}
