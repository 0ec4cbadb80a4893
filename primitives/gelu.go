package primitives

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// geluOp is x times the cumulative distribution function of the normal distribution.
// geluGradOp is the derivative of geluOp times a cotangent. Tanh selects the
// approximation by tanh.
type (
	geluOp     struct{ Tanh bool }
	geluGradOp struct{ Tanh bool }
)

var (
	_ primitive = geluOp{}
	_ primitive = geluGradOp{}
)

// GELU returns x · ½(1 + erf(x/√2)) for x of a float type. At -Inf it is NaN, as
// in JAX. Source: Hendrycks and Gimpel, "Gaussian error linear units" (2016).
func GELU(x *graph.Value) *graph.Value { return graph.Apply1(geluOp{}, x) }

// GELUTanh returns the approximation x · ½(1 + tanh(√(2/π)(x + 0.044715 x³))),
// which GPT-2 and Gemma use.
func GELUTanh(x *graph.Value) *graph.Value { return graph.Apply1(geluOp{Tanh: true}, x) }

func (geluOp) Name() string     { return "gelu" }
func (geluGradOp) Name() string { return "gelu_grad" }

func (geluOp) Infer(in []graph.Type) ([]graph.Type, error)     { return inferAlike(in, 1) }
func (geluGradOp) Infer(in []graph.Type) ([]graph.Type, error) { return inferAlike(in, 2) }

func (p geluOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{graph.Apply1(geluGradOp(p), e.In[0], ct[0])}, nil
}

func (p geluGradOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, c, g := e.In[0], e.In[1], ct[0]
	return []*graph.Value{Mul(Mul(g, c), p.second(x)), graph.Apply1(p, x, g)}, nil
}

// geluScale is √(2/π), geluCubic the factor of x³ in the approximation, and geluNormal
// 1/√(2π).
const (
	geluScale  = 0.79788456080286535587989211986876
	geluCubic  = 0.044715
	geluNormal = 0.39894228040143267793994605993438
)

// second returns gelu's second derivative.
func (p geluGradOp) second(x *graph.Value) *graph.Value {
	square := Mul(x, x)
	if !p.Tanh {
		return MulScalar(Mul(Exp(MulScalar(square, -0.5)), Sub(FullLike(x, 2), square)), geluNormal)
	}
	// With t = tanh u: the derivative of ½(1+t) + ½ x (1-t²) u'.
	one := OnesLike(x)
	u := MulScalar(Mul(x, AddScalar(MulScalar(square, geluCubic), 1)), geluScale)
	u1 := AddScalar(MulScalar(square, 3*geluCubic*geluScale), geluScale)
	u2 := MulScalar(x, 6*geluCubic*geluScale)
	t := Tanh(u)
	slope := Mul(Sub(one, t), Add(one, t))
	bend := Sub(u2, MulScalar(Mul(Mul(t, u1), u1), 2))
	return Mul(slope, Add(u1, MulScalar(Mul(x, bend), 0.5)))
}

// Pointwise says that the result is a constant, in any placement, if the arguments are constants.
func (geluOp) Pointwise() {}

func (geluOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), 1, 1, sharding.NotLinear))
}

// Pointwise says that the result is a constant, in any placement, if the arguments are constants.
func (geluGradOp) Pointwise() {}

func (geluGradOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), 2, 1, sharding.NotLinear))
}

func (p geluOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.GELU, Out: out, In: in, Elementwise: true, Kernel: inFloat(geluKernel[float32](p.Tanh), geluKernel[float64](p.Tanh))})
}

func (p geluGradOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.GELUGrad, Out: out, In: in, Elementwise: true, Kernel: inFloat(geluGradKernel[float32](p.Tanh), geluGradKernel[float64](p.Tanh))})
}

func geluKernel[T float](tanh bool) exec.Kernel {
	f := vector.GELU[T]
	if tanh {
		f = vector.GELUTanh[T]
	}
	return func(a *exec.Args) error {
		each1(a, cheap/4, f)
		return nil
	}
}

func geluGradKernel[T float](tanh bool) exec.Kernel {
	f := vector.GELUGrad[T]
	if tanh {
		f = vector.GELUTanhGrad[T]
	}
	return func(a *exec.Args) error {
		each2(a, cheap/4, f)
		return nil
	}
}

func (geluOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..]", Results: "f[..]", Formula: "y = x · ½(1 + erf(x/√2))",
		Params: "tanh: x · ½(1 + tanh(√(2/π)(x + 0.044715 x³))) instead"}
}

func (geluGradOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..], ct f[..]", Results: "f[..]", Formula: "dx = ct · gelu'(x)", Params: "tanh: of the approximation"}
}
