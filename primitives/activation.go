package primitives

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/vjp"
)

// swigluGradOp computes both cotangents of swiglu at once.
type swigluGradOp struct{ elementwise }

// geluOp is x times the cumulative distribution function of the normal distribution, or its derivative
// times a cotangent. Tanh selects the approximation by tanh.
type geluOp struct {
	elementwiseOp
	Tanh bool
}

var (
	_ primitive = swigluGradOp{}
	_ pointwise = geluOp{}
)

// SiLU returns x / (1 + e⁻ˣ) for x of a float type. At -Inf it is NaN, as in
// JAX. Source: Elfwing and others, "Sigmoid-weighted linear units" (2017).
func SiLU(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.SiLU), x) }

// SwiGLU returns silu(gate) · up for values of the same float type, without storing
// silu(gate). Source: Shazeer, "GLU variants improve transformer" (2020).
func SwiGLU(gate, up *graph.Value) *graph.Value {
	return graph.Apply1(elementwiseOf(ops.SwiGLU), gate, up)
}

// GELU returns x · ½(1 + erf(x/√2)) for x of a float type. At -Inf it is NaN, as
// in JAX. Source: Hendrycks and Gimpel, "Gaussian error linear units" (2016).
func GELU(x *graph.Value) *graph.Value {
	return graph.Apply1(geluOp{elementwiseOf(ops.GELU), false}, x)
}

// GELUTanh returns the approximation x · ½(1 + tanh(√(2/π)(x + 0.044715 x³))),
// used by GPT-2 and Gemma.
func GELUTanh(x *graph.Value) *graph.Value {
	return graph.Apply1(geluOp{elementwiseOf(ops.GELU), true}, x)
}

func siluGrad(x, ct *graph.Value) *graph.Value {
	return graph.Apply1(elementwiseOf(ops.SiLUGrad), x, ct)
}

// siluSecond returns silu's second derivative, s(1-s)(2 + x(1-2s)) with s = 1/(1 + e⁻ˣ).
func siluSecond(x *graph.Value) *graph.Value {
	one, s := OnesLike(x), Logistic(x)
	return Mul(Mul(s, Sub(one, s)), AddScalar(Mul(x, Sub(one, MulScalar(s, 2))), 2))
}

func (swigluGradOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if _, err := elementwiseOf(ops.SwiGLUGrad).Infer(in); err != nil {
		return nil, err
	}
	return in[:2], nil
}

// swigluSecond differentiates dgate = ct·up·silu'(gate) and dup = ct·silu(gate).
func swigluSecond(e *graph.Eqn, ct []*graph.Value) []*graph.Value {
	gate, up, c := e.In[0], e.In[1], e.In[2]
	g, h := vjp.Instantiate(ct[0], e.Out[0]), vjp.Instantiate(ct[1], e.Out[1])
	return []*graph.Value{
		Add(Mul(Mul(Mul(g, c), up), siluSecond(gate)), siluGrad(gate, Mul(h, c))),
		siluGrad(gate, Mul(g, c)),
		Add(siluGrad(gate, Mul(g, up)), Mul(h, SiLU(gate))),
	}
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

func (p swigluGradOp) Doc() graph.Doc {
	d := p.elementwise.Doc()
	d.Results = "f[..], f[..]"
	return d
}

func (p geluOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	grad := geluOp{elementwiseOf(ops.GELUGrad), p.Tanh}
	if p.op == ops.GELU {
		return []*graph.Value{graph.Apply1(grad, e.In[0], ct[0])}, nil
	}
	x, c, g := e.In[0], e.In[1], ct[0]
	return []*graph.Value{Mul(Mul(g, c), p.second(x)), graph.Apply1(grad, x, g)}, nil
}

// geluScale is √(2/π), geluCubic the factor of x³ in the approximation, and geluNormal
// 1/√(2π).
const (
	geluScale  = 0.79788456080286535587989211986876
	geluCubic  = 0.044715
	geluNormal = 0.39894228040143267793994605993438
)

// second returns gelu's second derivative.
func (p geluOp) second(x *graph.Value) *graph.Value {
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

func (p geluOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	k := p.row().kernel
	switch {
	case p.Tanh && p.op == ops.GELU:
		k = widened1(cheap/4, vector.GELUTanh, vector.GELUTanh)
	case p.Tanh:
		k = widened2(cheap/4, vector.GELUTanhGrad, vector.GELUTanhGrad)
	}
	return e.Emit(lowering.KernelSpec{Op: p.op, Out: out, In: in, Elementwise: true, Kernel: k})
}
