package primitives

import (
	"math"

	"github.com/gomoe/gomoe/graph"
)

// unaryOp is one member of the family.
type unaryOp struct {
	of      operands
	formula string
	notes   string
	// vjp returns the argument's cotangent from the argument x, the result y and
	// the result's cotangent ct. It is nil where the derivative is zero.
	vjp func(x, y, ct *graph.Value) *graph.Value
}

// unaryOps is a function and not a variable, since derivatives refer back to
// it. Derivatives are those of jax.lax.
func unaryOps() map[string]unaryOp {
	return map[string]unaryOp{
		"neg": {numbers, "-x", "Integers wrap.",
			func(_, _, ct *graph.Value) *graph.Value { return Neg(ct) }},
		"abs": {signed, "|x|", "The derivative at 0 is 1.",
			func(x, _, ct *graph.Value) *graph.Value { return Where(Ge(x, ZerosLike(x)), ct, Neg(ct)) }},
		"sign": {numbers, "-1, 0 or 1", "The sign of -0 is -0, of NaN NaN.", nil},
		"square": {numbers, "x²", "Integers wrap.",
			func(x, _, ct *graph.Value) *graph.Value { return Mul(ct, MulScalar(x, 2)) }},
		"floor": {floats, "⌊x⌋", "The derivative is 0.", nil},
		"ceil":  {floats, "⌈x⌉", "The derivative is 0.", nil},
		"exp": {floats, "eˣ", "",
			func(_, y, ct *graph.Value) *graph.Value { return Mul(ct, y) }},
		"expm1": {floats, "eˣ - 1", "Accurate near 0.",
			func(_, y, ct *graph.Value) *graph.Value { return Mul(ct, AddScalar(y, 1)) }},
		"log": {floats, "ln x", "",
			func(x, _, ct *graph.Value) *graph.Value { return Div(ct, x) }},
		"log1p": {floats, "ln(1 + x)", "Accurate near 0.",
			func(x, _, ct *graph.Value) *graph.Value { return Div(ct, AddScalar(x, 1)) }},
		"sqrt": {floats, "√x", "",
			func(_, y, ct *graph.Value) *graph.Value { return Mul(ct, Div(FullLike(y, 0.5), y)) }},
		"rsqrt": {floats, "1 / √x", "Rounded once.",
			func(x, y, ct *graph.Value) *graph.Value { return Mul(ct, MulScalar(Div(y, x), -0.5)) }},
		"sin": {floats, "sin x", "Radians.",
			func(x, _, ct *graph.Value) *graph.Value { return Mul(ct, Cos(x)) }},
		"cos": {floats, "cos x", "Radians.",
			func(x, _, ct *graph.Value) *graph.Value { return Neg(Mul(ct, Sin(x))) }},
		// (1+y)(1-y) keeps bits that 1-y² loses where |y| is near 1.
		"tanh": {floats, "tanh x", "",
			func(_, y, ct *graph.Value) *graph.Value { return Mul(Add(ct, Mul(ct, y)), Sub(OnesLike(y), y)) }},
		"logistic": {floats, "1 / (1 + e⁻ˣ)", "Overflows nowhere.",
			func(_, y, ct *graph.Value) *graph.Value { return Mul(ct, Mul(y, Sub(OnesLike(y), y))) }},
		"erf": {floats, "2/√π · ∫₀ˣ exp(-t²) dt", "",
			func(x, _, ct *graph.Value) *graph.Value {
				return Mul(ct, MulScalar(Exp(Neg(Square(x))), 2/math.SqrtPi))
			}},
	}
}
