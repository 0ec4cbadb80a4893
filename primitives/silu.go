package primitives

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// silu is x·sigmoid(x); siluGrad is its derivative times a cotangent.
type (
	silu     struct{}
	siluGrad struct{}
)

var (
	_ Primitive = silu{}
	_ Primitive = siluGrad{}
)

// SiLU returns x / (1 + e⁻ˣ) for x of a float type. At -Inf it is NaN, as in
// JAX. Source: Elfwing and others, "Sigmoid-weighted linear units" (2017).
func SiLU(x *graph.Value) *graph.Value { return graph.Apply1(silu{}, x) }

func (silu) Name() string     { return "silu" }
func (siluGrad) Name() string { return "silu_grad" }

func (silu) Infer(in []graph.Type) ([]graph.Type, error)     { return inferAlike(in, 1) }
func (siluGrad) Infer(in []graph.Type) ([]graph.Type, error) { return inferAlike(in, 2) }

// inferAlike types an elementwise function of n arguments of one float type.
func inferAlike(in []graph.Type, n int) ([]graph.Type, error) {
	if err := arity(in, n); err != nil {
		return nil, err
	}
	if err := alike(in); err != nil {
		return nil, err
	}
	return in[:1], floating(in[0])
}

func (silu) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{graph.Apply1(siluGrad{}, e.In[0], ct[0])}, nil
}

func (siluGrad) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, c, g := e.In[0], e.In[1], ct[0]
	return []*graph.Value{Mul(Mul(g, c), siluSecond(x)), graph.Apply1(siluGrad{}, x, g)}, nil
}

// siluSecond returns silu's second derivative, s(1-s)(2 + x(1-2s)) with s = 1/(1 + e⁻ˣ).
func siluSecond(x *graph.Value) *graph.Value {
	one, s := OnesLike(x), Logistic(x)
	return Mul(Mul(s, Sub(one, s)), AddScalar(Mul(x, Sub(one, Scale(s, 2))), 2))
}

// Pointwise says that the result of constants is one, made wherever it is used.
func (silu) Pointwise() {}

func (silu) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), 1, 1, sharding.NotLinear))
}

// Pointwise says that the result of constants is one, made wherever it is used.
func (siluGrad) Pointwise() {}

func (siluGrad) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), 2, 1, sharding.NotLinear))
}

func (silu) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Elementwise("silu", out, in, inFloat(siluKernel(vector.SiLU[float32]), siluKernel(vector.SiLU[float64])))
}

func (siluGrad) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Elementwise("silu_grad", out, in, inFloat(siluGradKernel(vector.SiLUGrad[float32]), siluGradKernel(vector.SiLUGrad[float64])))
}

func siluKernel[T Float](f func(y, x []T)) lowering.Kernel {
	return func(a *lowering.Args) error {
		each1(a, cheap, f)
		return nil
	}
}

func siluGradKernel[T Float](f func(dx, x, ct []T)) lowering.Kernel {
	return func(a *lowering.Args) error {
		each2(a, cheap, f)
		return nil
	}
}

func (silu) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..]", Results: "f[..]", Formula: "y = x / (1 + e⁻ˣ)"}
}

func (siluGrad) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..], ct f[..]", Results: "f[..]", Formula: "dx = ct · s · (1 + x(1-s)), s = 1/(1 + e⁻ˣ)"}
}
