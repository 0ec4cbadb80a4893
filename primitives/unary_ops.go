package primitives

import (
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// unaryRow is one member of the family.
type unaryRow struct {
	of      operands
	formula string
	notes   string
	// vjp returns the argument's cotangent from the argument x, the result y and
	// the result's cotangent ct. It is nil where the derivative is zero.
	vjp func(x, y, ct *graph.Value) *graph.Value
}

// of returns u's member of the family, and whether there is one. It is a switch and not
// a table: derivatives refer to the family, so a table would be a cycle of
// initialisation or a map made for every equation. Derivatives are those of jax.lax.
func (u unaryOp) of() (op unaryRow, ok bool) {
	switch u.op {
	case ops.Neg:
		return unaryRow{numbers, "-x", "Integers wrap.",
			func(_, _, ct *graph.Value) *graph.Value { return Neg(ct) }}, true
	case ops.Abs:
		return unaryRow{signed, "|x|", "The derivative at 0 is 1.",
			func(x, _, ct *graph.Value) *graph.Value { return Where(Ge(x, ZerosLike(x)), ct, Neg(ct)) }}, true
	case ops.Sign:
		return unaryRow{numbers, "-1, 0 or 1", "The sign of -0 is -0, of NaN NaN.", nil}, true
	case ops.Square:
		return unaryRow{numbers, "x²", "Integers wrap.",
			func(x, _, ct *graph.Value) *graph.Value { return Mul(ct, MulScalar(x, 2)) }}, true
	case ops.Floor:
		return unaryRow{floats, "⌊x⌋", "The derivative is 0.", nil}, true
	case ops.Ceil:
		return unaryRow{floats, "⌈x⌉", "The derivative is 0.", nil}, true
	case ops.Exp:
		return unaryRow{floats, "eˣ", "",
			func(_, y, ct *graph.Value) *graph.Value { return Mul(ct, y) }}, true
	case ops.Expm1:
		return unaryRow{floats, "eˣ - 1", "Accurate near 0.",
			func(_, y, ct *graph.Value) *graph.Value { return Mul(ct, AddScalar(y, 1)) }}, true
	case ops.Log:
		return unaryRow{floats, "ln x", "",
			func(x, _, ct *graph.Value) *graph.Value { return Div(ct, x) }}, true
	case ops.Log1p:
		return unaryRow{floats, "ln(1 + x)", "Accurate near 0.",
			func(x, _, ct *graph.Value) *graph.Value { return Div(ct, AddScalar(x, 1)) }}, true
	case ops.Sqrt:
		return unaryRow{floats, "√x", "",
			func(_, y, ct *graph.Value) *graph.Value { return Mul(ct, Div(FullLike(y, 0.5), y)) }}, true
	case ops.Rsqrt:
		return unaryRow{floats, "1 / √x", "Rounded once, except in f64, where the root is rounded first: the last bit of about one result in four is another.",
			func(x, y, ct *graph.Value) *graph.Value { return Mul(ct, MulScalar(Div(y, x), -0.5)) }}, true
	case ops.Sin:
		return unaryRow{floats, "sin x", "Radians.",
			func(x, _, ct *graph.Value) *graph.Value { return Mul(ct, Cos(x)) }}, true
	case ops.Cos:
		return unaryRow{floats, "cos x", "Radians.",
			func(x, _, ct *graph.Value) *graph.Value { return Neg(Mul(ct, Sin(x))) }}, true
	case ops.Tanh:
		// (1+y)(1-y) keeps bits that 1-y² loses where |y| is near 1.
		return unaryRow{floats, "tanh x", "",
			func(_, y, ct *graph.Value) *graph.Value { return Mul(Add(ct, Mul(ct, y)), Sub(OnesLike(y), y)) }}, true
	case ops.Logistic:
		return unaryRow{floats, "1 / (1 + e⁻ˣ)", "Overflows nowhere.",
			func(_, y, ct *graph.Value) *graph.Value { return Mul(ct, Mul(y, Sub(OnesLike(y), y))) }}, true
	case ops.Erf:
		return unaryRow{floats, "2/√π · ∫₀ˣ exp(-t²) dt", "",
			func(x, _, ct *graph.Value) *graph.Value {
				return Mul(ct, MulScalar(Exp(Neg(Square(x))), 2/math.SqrtPi))
			}}, true
	}
	return unaryRow{}, false
}
