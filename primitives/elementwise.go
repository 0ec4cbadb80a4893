package primitives

import (
	"fmt"
	"math"
	"strings"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// elementwiseOp is the family of functions with arguments and a result of the same shape. A function is
// a row of elementwiseRows.
type elementwiseOp struct{ elementwise }

// elementwise has the rules of elementwiseOp, and of functions with two results.
type elementwise struct{ op ops.Op }

// roundOp rounds to the nearest whole number, rounding halves away from zero or,
// with ToEven, to the even one.
type roundOp struct {
	elementwiseOp
	ToEven bool
}

var (
	_ pointwise = elementwiseOp{}
	_ pointwise = roundOp{}
	_ primitive = elementwise{}
)

func elementwiseOf(op ops.Op) elementwiseOp { return elementwiseOp{elementwise{op}} }

// Neg returns -x. Integers wrap.
func Neg(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Neg), x) }

// Abs returns |x| of floats and signed integers. The least integer, which has no
// positive counterpart, is unchanged. The derivative at 0 is 1, as in JAX.
func Abs(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Abs), x) }

// Sign returns -1, 0 or 1. The sign of -0 is -0, and the sign of NaN is NaN.
func Sign(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Sign), x) }

// Square returns x². Integers wrap.
func Square(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Square), x) }

// Floor returns the greatest whole number that is at most x.
func Floor(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Floor), x) }

// Ceil returns the least whole number that is at least x.
func Ceil(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Ceil), x) }

// Exp returns eˣ.
func Exp(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Exp), x) }

// Expm1 returns eˣ - 1, accurate near 0.
func Expm1(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Expm1), x) }

// Log returns the natural logarithm of x: -Inf at 0, NaN below.
func Log(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Log), x) }

// Log1p returns ln(1 + x), accurate near 0.
func Log1p(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Log1p), x) }

// Sqrt returns the square root of x, NaN below 0. The derivative at 0 is +Inf.
func Sqrt(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Sqrt), x) }

// Rsqrt returns 1 / √x, rounded once: +Inf at 0, NaN below.
func Rsqrt(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Rsqrt), x) }

// Sin returns the sine of x radians.
func Sin(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Sin), x) }

// Cos returns the cosine of x radians.
func Cos(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Cos), x) }

// Tanh returns the hyperbolic tangent of x.
func Tanh(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Tanh), x) }

// Logistic returns 1 / (1 + e⁻ˣ), the sigmoid. It overflows nowhere.
func Logistic(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Logistic), x) }

// Erf returns the error function 2/√π · ∫₀ˣ exp(-t²) dt.
func Erf(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Erf), x) }

// Round returns x rounded to the nearest whole number, rounding halves away from zero.
func Round(x *graph.Value) *graph.Value {
	return graph.Apply1(roundOp{elementwiseOf(ops.Round), false}, x)
}

// RoundToEven returns x rounded to the nearest whole number, rounding halves to
// the even one.
func RoundToEven(x *graph.Value) *graph.Value {
	return graph.Apply1(roundOp{elementwiseOf(ops.Round), true}, x)
}

// IsFinite returns whether each element of x is neither infinite nor NaN.
func IsFinite(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.IsFinite), x) }

// Add returns x + y. Both have the same type; broadcasting is explicit. Integers
// wrap, as in all functions of the family.
func Add(x, y *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Add), x, y) }

// Sub returns x - y.
func Sub(x, y *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Sub), x, y) }

// Mul returns x · y.
func Mul(x, y *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Mul), x, y) }

// Div returns x / y. Quotients of integers are truncated towards 0. An integer
// divided by 0 gives -1, that is, all bits set: the greatest value of an unsigned
// type. The run does not fail.
func Div(x, y *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Div), x, y) }

// Rem returns x - y · trunc(x/y), the exact remainder, keeping x's sign. For y = 0
// it is NaN, or x itself for integers.
func Rem(x, y *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Rem), x, y) }

// Pow returns xʸ of floats. It is NaN for negative x with a y that is not
// whole; the derivative with respect to y is NaN for every negative x, and 0
// for x = 0.
func Pow(x, y *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Pow), x, y) }

// Max returns the greater of x and y, NaN where one of them is NaN. Where both are
// equal, each receives half of the cotangent.
func Max(x, y *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Max), x, y) }

// Min returns the lesser of x and y, NaN where one of them is NaN. Where both are
// equal, each receives half of the cotangent.
func Min(x, y *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Min), x, y) }

// Eq returns whether x = y.
func Eq(x, y *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Eq), x, y) }

// Ne returns whether x ≠ y.
func Ne(x, y *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Ne), x, y) }

// Lt returns whether x < y.
func Lt(x, y *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Lt), x, y) }

// Le returns whether x ≤ y.
func Le(x, y *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Le), x, y) }

// Gt returns whether x > y.
func Gt(x, y *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Gt), x, y) }

// Ge returns whether x ≥ y.
func Ge(x, y *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Ge), x, y) }

// Not returns the complement: false for true, and every bit of an integer
// flipped.
func Not(x *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Not), x) }

// And returns whether both x and y are true, or for integers the bits that are set in both.
func And(x, y *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.And), x, y) }

// Or returns whether x or y is true, or for integers the bits that are set in either.
func Or(x, y *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Or), x, y) }

// Xor returns whether x and y differ, or for integers the bits in which they differ.
func Xor(x, y *graph.Value) *graph.Value { return graph.Apply1(elementwiseOf(ops.Xor), x, y) }

// elementwiseRow is one function of the family.
type elementwiseRow struct {
	args    string // their names
	of      operands
	bools   bool // the result is bool
	linear  sharding.Linearity
	formula string
	notes   string
	params  string
	// vjp returns the cotangents of the arguments. It is nil if they are zero.
	vjp    func(e *graph.Eqn, ct []*graph.Value) []*graph.Value
	kernel exec.Kernel
}

// elementwiseRows are the functions. Derivatives follow jax.lax.
var elementwiseRows = [...]elementwiseRow{
	ops.Neg: {args: "x", of: numbers, linear: sharding.LinearTogether, formula: "y = -x", notes: "Integers wrap.",
		vjp:    ofOne(func(_, _, ct *graph.Value) *graph.Value { return Neg(ct) }),
		kernel: numbers1(swift, cheap, vector.Neg, vector.Neg, negate, negate, negate, negate)},
	ops.Abs: {args: "x", of: signed, formula: "y = |x|", notes: "The derivative at 0 is 1.",
		vjp:    ofOne(func(x, _, ct *graph.Value) *graph.Value { return Where(Ge(x, ZerosLike(x)), ct, Neg(ct)) }),
		kernel: numbers1(swift, cheap, vector.Abs, vector.Abs, magnitude, magnitude, magnitude, magnitude)},
	ops.Sign: {args: "x", of: numbers, formula: "y = -1, 0 or 1", notes: "The sign of -0 is -0, of NaN NaN.",
		kernel: numbers1(swift, cheap, vector.Sign, vector.Sign, sign, sign, sign, sign)},
	ops.Square: {args: "x", of: numbers, formula: "y = x²", notes: "Integers wrap.",
		vjp:    ofOne(func(x, _, ct *graph.Value) *graph.Value { return Mul(ct, MulScalar(x, 2)) }),
		kernel: numbers1(swift, cheap, vector.Square, vector.Square, square, square, square, square)},
	ops.Floor: {args: "x", formula: "y = ⌊x⌋", notes: "The derivative is 0.", kernel: floats1(swift, cheap, vector.Floor, vector.Floor)},
	ops.Ceil:  {args: "x", formula: "y = ⌈x⌉", notes: "The derivative is 0.", kernel: floats1(swift, cheap, vector.Ceil, vector.Ceil)},
	ops.Exp: {args: "x", formula: "y = eˣ",
		vjp:    ofOne(func(_, y, ct *graph.Value) *graph.Value { return Mul(ct, y) }),
		kernel: floats1(cheap, dear, vector.Exp, vector.Exp)},
	ops.Expm1: {args: "x", formula: "y = eˣ - 1", notes: "Accurate near 0.",
		vjp:    ofOne(func(_, y, ct *graph.Value) *graph.Value { return Mul(ct, AddScalar(y, 1)) }),
		kernel: floats1(cheap, dear, vector.Expm1, vector.Expm1)},
	ops.Log: {args: "x", formula: "y = ln x",
		vjp:    ofOne(func(x, _, ct *graph.Value) *graph.Value { return Div(ct, x) }),
		kernel: floats1(cheap, dear, vector.Log, vector.Log)},
	ops.Log1p: {args: "x", formula: "y = ln(1 + x)", notes: "Accurate near 0.",
		vjp:    ofOne(func(x, _, ct *graph.Value) *graph.Value { return Div(ct, AddScalar(x, 1)) }),
		kernel: floats1(cheap, dear, vector.Log1p, vector.Log1p)},
	ops.Sqrt: {args: "x", formula: "y = √x",
		vjp:    ofOne(func(_, y, ct *graph.Value) *graph.Value { return Mul(ct, Div(FullLike(y, 0.5), y)) }),
		kernel: floats1(swift, cheap, vector.Sqrt, vector.Sqrt)},
	ops.Rsqrt: {args: "x", formula: "y = 1 / √x", notes: "Rounded once, except in f64, where the root is rounded first: the last bit of about one result in four is another.",
		vjp:    ofOne(func(x, y, ct *graph.Value) *graph.Value { return Mul(ct, MulScalar(Div(y, x), -0.5)) }),
		kernel: floats1(cheap, dear, vector.Rsqrt, vector.Rsqrt)},
	ops.Sin: {args: "x", formula: "y = sin x", notes: "Radians.",
		vjp:    ofOne(func(x, _, ct *graph.Value) *graph.Value { return Mul(ct, Cos(x)) }),
		kernel: floats1(cheap, dear, vector.Sin, vector.Sin)},
	ops.Cos: {args: "x", formula: "y = cos x", notes: "Radians.",
		vjp:    ofOne(func(x, _, ct *graph.Value) *graph.Value { return Neg(Mul(ct, Sin(x))) }),
		kernel: floats1(cheap, dear, vector.Cos, vector.Cos)},
	ops.Tanh: {args: "x", formula: "y = tanh x",
		// (1+y)(1-y) keeps bits that 1-y² loses where |y| is near 1.
		vjp:    ofOne(func(_, y, ct *graph.Value) *graph.Value { return Mul(Add(ct, Mul(ct, y)), Sub(OnesLike(y), y)) }),
		kernel: floats1(cheap, dear, vector.Tanh, vector.Tanh)},
	ops.Logistic: {args: "x", formula: "y = 1 / (1 + e⁻ˣ)", notes: "Overflows nowhere.",
		vjp:    ofOne(func(_, y, ct *graph.Value) *graph.Value { return Mul(ct, Mul(y, Sub(OnesLike(y), y))) }),
		kernel: floats1(cheap, dear, vector.Logistic, vector.Logistic)},
	ops.Erf: {args: "x", formula: "y = 2/√π · ∫₀ˣ exp(-t²) dt",
		vjp: ofOne(func(x, _, ct *graph.Value) *graph.Value {
			return Mul(ct, MulScalar(Exp(Neg(Square(x))), 2/math.SqrtPi))
		}),
		kernel: floats1(cheap, dear, vector.Erf, vector.Erf)},
	ops.Round: {args: "x", formula: "y = the nearest whole number, halves away from zero", notes: "The derivative is 0.",
		params: "to_even: halves go to the even neighbour instead", kernel: floats1(cheap, dear, vector.Round, vector.Round)},
	ops.IsFinite: {args: "x", bools: true, formula: "y = whether x is neither infinite nor NaN", kernel: finite},

	ops.Add: {args: "x y", of: numbers, linear: sharding.LinearTogether, formula: "z = x + y",
		vjp:    ofTwo(func(_, _, _, ct *graph.Value) (dx, dy *graph.Value) { return ct, ct }),
		kernel: numbers2(swift, cheap, vector.Add, vector.Add, add, add, add, add)},
	ops.Sub: {args: "x y", of: numbers, linear: sharding.LinearTogether, formula: "z = x - y",
		vjp:    ofTwo(func(_, _, _, ct *graph.Value) (dx, dy *graph.Value) { return ct, Neg(ct) }),
		kernel: numbers2(swift, cheap, vector.Sub, vector.Sub, subtract, subtract, subtract, subtract)},
	ops.Mul: {args: "x y", of: numbers, linear: sharding.LinearEach, formula: "z = x · y",
		vjp:    ofTwo(func(x, y, _, ct *graph.Value) (dx, dy *graph.Value) { return Mul(ct, y), Mul(ct, x) }),
		kernel: numbers2(swift, cheap, vector.Mul, vector.Mul, multiplyInts, multiplyInts, multiplyInts, multiplyInts)},
	ops.Div: {args: "x y", of: numbers, linear: sharding.LinearFirst, formula: "z = x / y",
		notes:  "Integers are truncated towards 0; divided by 0 they give -1, the greatest value if unsigned.",
		vjp:    ofTwo(func(_, y, z, ct *graph.Value) (dx, dy *graph.Value) { return Div(ct, y), Neg(Div(Mul(ct, z), y)) }),
		kernel: numbers2(swift, cheap, vector.Div, vector.Div, divide, divide, divide, divide)},
	ops.Rem: {args: "x y", of: numbers, formula: "z = x - y · trunc(x/y)",
		notes: "Has x's sign. For y = 0: NaN, or x for integers. Where it is NaN, so is the derivative with respect to y; jax.lax has an infinity there.",
		vjp: ofTwo(func(x, y, z, ct *graph.Value) (dx, dy *graph.Value) {
			return ct, Neg(Mul(ct, Round(Div(Sub(x, z), y)))) // (x-z)/y is a whole number up to rounding
		}),
		kernel: numbers2(dear, dear, remainder, remainder, modulo, modulo, modulo, modulo)},
	ops.Pow: {args: "x y", formula: "z = xʸ",
		notes: "The derivative with respect to y is 0 for x = 0 and NaN for x < 0; that with respect to x is NaN where both are 0.",
		vjp: ofTwo(func(x, y, z, ct *graph.Value) (dx, dy *graph.Value) {
			return Mul(ct, Mul(y, Pow(x, AddScalar(y, -1)))), Mul(ct, Mul(Log(Where(Eq(x, ZerosLike(x)), OnesLike(x), x)), z))
		}),
		kernel: floats2(cheap, dear, vector.Pow, vector.Pow)},
	ops.Max: {args: "x y", of: anything, formula: "z = max(x, y)", notes: "NaN where one is NaN. Where both are equal, each receives half of the cotangent.",
		vjp: ofTwo(ofExtreme), kernel: numbers2(swift, cheap, vector.Maximum, vector.Maximum, greater, greater, greater, greater)},
	ops.Min: {args: "x y", of: anything, formula: "z = min(x, y)", notes: "NaN where one is NaN. Where both are equal, each receives half of the cotangent.",
		vjp: ofTwo(ofExtreme), kernel: numbers2(swift, cheap, vector.Minimum, vector.Minimum, lesser, lesser, lesser, lesser)},

	ops.Eq: comparison("=", vector.Equal, equal, equal, equal, equal, equal),
	ops.Ne: comparison("≠", vector.Unequal, unequal, unequal, unequal, unequal, unequal),
	ops.Lt: comparison("<", vector.Less, less, less, less, less, less),
	ops.Le: comparison("≤", vector.AtMost, atMost, atMost, atMost, atMost, atMost),
	ops.Gt: comparison(">", vector.Greater, exceeds, exceeds, exceeds, exceeds, exceeds),
	ops.Ge: comparison("≥", vector.AtLeast, reaches, reaches, reaches, reaches, reaches),

	ops.Not: {args: "x", of: discrete, formula: "y = ¬x", notes: "Of bool, or of every bit of integers.", kernel: bitwise(ops.Not)},
	ops.And: {args: "x y", of: discrete, formula: "z = x ∧ y", notes: "Of bool, or of every bit of integers.", kernel: bitwise(ops.And)},
	ops.Or:  {args: "x y", of: discrete, formula: "z = x ∨ y", notes: "Of bool, or of every bit of integers.", kernel: bitwise(ops.Or)},
	ops.Xor: {args: "x y", of: discrete, formula: "z = x ⊕ y", notes: "Of bool, or of every bit of integers.", kernel: bitwise(ops.Xor)},

	ops.SiLU: {args: "x", formula: "y = x / (1 + e⁻ˣ)",
		vjp:    ofOne(func(x, _, ct *graph.Value) *graph.Value { return siluGrad(x, ct) }),
		kernel: widened1(cheap, vector.SiLU, vector.SiLU)},
	ops.SiLUGrad: {args: "x ct", formula: "dx = ct · s · (1 + x(1-s)), s = 1/(1 + e⁻ˣ)",
		vjp: ofTwo(func(x, c, _, ct *graph.Value) (dx, dc *graph.Value) {
			return Mul(Mul(ct, c), siluSecond(x)), siluGrad(x, ct)
		}),
		kernel: widened2(cheap, vector.SiLUGrad, vector.SiLUGrad)},
	ops.SwiGLU: {args: "gate up", formula: "y = gate / (1 + e^-gate) · up",
		vjp: func(e *graph.Eqn, ct []*graph.Value) []*graph.Value {
			return graph.Apply(swigluGradOp{elementwise{ops.SwiGLUGrad}}, e.In[0], e.In[1], ct[0])
		},
		kernel: widened2(cheap, vector.SwiGLU, vector.SwiGLU)},
	ops.SwiGLUGrad: {args: "gate up ct", formula: "dgate = ct · up · s · (1 + gate(1-s)), dup = ct · gate · s, s = 1/(1 + e^-gate)",
		vjp: swigluSecond, kernel: inFloat(swigluGradKernel[float32], swigluGradKernel[float64])},
	ops.GELU: {args: "x", formula: "y = x · ½(1 + erf(x/√2))", params: "tanh: x · ½(1 + tanh(√(2/π)(x + 0.044715 x³))) instead",
		kernel: widened1(cheap/4, vector.GELU, vector.GELU)},
	ops.GELUGrad: {args: "x ct", formula: "dx = ct · gelu'(x)", params: "tanh: of the approximation",
		kernel: widened2(cheap/4, vector.GELUGrad, vector.GELUGrad)},
}

// comparison returns the row of a comparison.
func comparison(sign string, f32 func([]bool, []float32, []float32), f64 func([]bool, []float64, []float64), i32 func([]bool, []int32, []int32),
	i64 func([]bool, []int64, []int64), u32 func([]bool, []uint32, []uint32), u8 func([]bool, []uint8, []uint8)) elementwiseRow {
	return elementwiseRow{args: "x y", of: anything, bools: true, formula: "z = (x " + sign + " y)",
		notes: "A NaN is unequal to everything and in no order; false < true.", kernel: compare(f32, f64, i32, i64, u32, u8)}
}

// ofOne returns the rule of a function y of x from its derivative times the cotangent ct of y.
func ofOne(f func(x, y, ct *graph.Value) *graph.Value) func(e *graph.Eqn, ct []*graph.Value) []*graph.Value {
	return func(e *graph.Eqn, ct []*graph.Value) []*graph.Value {
		return []*graph.Value{f(e.In[0], e.Out[0], ct[0])}
	}
}

// ofTwo returns the rule of a function z of x and y from its derivatives times the cotangent ct of z.
func ofTwo(f func(x, y, z, ct *graph.Value) (dx, dy *graph.Value)) func(e *graph.Eqn, ct []*graph.Value) []*graph.Value {
	return func(e *graph.Eqn, ct []*graph.Value) []*graph.Value {
		dx, dy := f(e.In[0], e.In[1], e.Out[0], ct[0])
		return []*graph.Value{dx, dy}
	}
}

// ofExtreme passes the whole cotangent to an argument equal to the result, and half of it to each if both
// are.
func ofExtreme(x, y, z, ct *graph.Value) (dx, dy *graph.Value) {
	isX, isY, half, none := Eq(x, z), Eq(y, z), MulScalar(ct, 0.5), ZerosLike(ct)
	return Where(isX, Where(isY, half, ct), none), Where(isY, Where(isX, half, ct), none)
}

func (p elementwise) row() *elementwiseRow { return &elementwiseRows[p.op] }

func (p elementwise) args() []string { return strings.Fields(p.row().args) }

func (p elementwise) Name() string { return p.op.String() }

func (p elementwise) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, len(p.args())); err != nil {
		return nil, err
	}
	if err := alike(in); err != nil {
		return nil, err
	}
	row := p.row()
	if row.bools {
		return []graph.Type{in[0].With(graph.Bool)}, row.of.check(in[0])
	}
	return in[:1], row.of.check(in[0])
}

func (p elementwise) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	if f := p.row().vjp; f != nil {
		return f(e, ct), nil
	}
	return nil, nil
}

func (p elementwise) Shard(c *sharding.Context) (sharding.Decision, error) {
	l := p.row().linear
	if p.op == ops.Div && !c.Type(0).DType.IsFloat() {
		l = sharding.NotLinear // truncation is not linear
	}
	return c.Place(sharding.Elementwise(c.Type(0), len(c.Eqn.In), len(c.Eqn.Out), l))
}

func (elementwiseOp) Pointwise() {}

func (p elementwise) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: p.op, Out: out, In: in, Elementwise: true, Kernel: p.row().kernel})
}

func (p roundOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	k := p.row().kernel
	if p.ToEven {
		k = floats1(cheap, dear, vector.RoundToEven, vector.RoundToEven)
	}
	return e.Emit(lowering.KernelSpec{Op: p.op, Out: out, In: in, Elementwise: true, Kernel: k})
}

func (p elementwise) Doc() graph.Doc {
	row := p.row()
	typ := row.of.letter() + "[..]"
	d := graph.Doc{Results: typ, Formula: row.formula, Params: row.params, Notes: row.notes}
	for i, name := range p.args() {
		if i > 0 {
			d.Args += ", "
		}
		d.Args += name + " " + typ
	}
	if row.bools {
		d.Results = "bool[..]"
	}
	return d
}

// elementwiseFamily returns the functions from the first to the last one.
func elementwiseFamily(first, last ops.Op) []graph.Primitive {
	var all []graph.Primitive
	for op := first; op <= last; op++ {
		all = append(all, elementwiseOf(op))
	}
	return all
}

// operands is a set of element types.
type operands int

const (
	floats operands = iota
	signed
	numbers
	discrete
	anything
)

// check returns an error if t's element type is outside the set.
func (o operands) check(t graph.Type) error {
	d := t.DType
	switch o {
	case floats:
		return floating(t)
	case signed:
		if !d.IsFloat() && d != graph.I32 && d != graph.I64 {
			return wantType(t, "a float type, i32 or i64")
		}
	case numbers:
		return wantNumber(t)
	case discrete:
		if !d.IsInt() && d != graph.Bool {
			return wantType(t, "bool or an integer type")
		}
	}
	return nil
}

// letter returns the letter by which the reference prints the set.
func (o operands) letter() string { return [...]string{"f", "s", "n", "i", "t"}[o] }

func wantType(t graph.Type, want string) error {
	return fmt.Errorf("element type %s, want %s; convert with convert_element_type", t.DType, want)
}

// wantNumber returns an error unless t is of a float or an integer type.
func wantNumber(t graph.Type) error {
	if !t.DType.IsFloat() && !t.DType.IsInt() {
		return wantType(t, "a float or integer type")
	}
	return nil
}
