package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// unaryOp is the family of elementwise functions of one argument that give a
// result of the same type.
type unaryOp struct{ op ops.Op }

var _ pointwise = unaryOp{}

// Neg returns -x. Integers wrap.
func Neg(x *graph.Value) *graph.Value { return graph.Apply1(unaryOp{ops.Neg}, x) }

// Abs returns |x| of floats and signed integers. The least integer, which has no
// positive counterpart, is unchanged. The derivative at 0 is 1, as in JAX.
func Abs(x *graph.Value) *graph.Value { return graph.Apply1(unaryOp{ops.Abs}, x) }

// Sign returns -1, 0 or 1; the sign of -0 is -0 and that of NaN is NaN.
func Sign(x *graph.Value) *graph.Value { return graph.Apply1(unaryOp{ops.Sign}, x) }

// Square returns x². Integers wrap.
func Square(x *graph.Value) *graph.Value { return graph.Apply1(unaryOp{ops.Square}, x) }

// Floor returns the greatest whole number that is at most x.
func Floor(x *graph.Value) *graph.Value { return graph.Apply1(unaryOp{ops.Floor}, x) }

// Ceil returns the least whole number that is at least x.
func Ceil(x *graph.Value) *graph.Value { return graph.Apply1(unaryOp{ops.Ceil}, x) }

// Exp returns eˣ.
func Exp(x *graph.Value) *graph.Value { return graph.Apply1(unaryOp{ops.Exp}, x) }

// Expm1 returns eˣ - 1, accurate near 0.
func Expm1(x *graph.Value) *graph.Value { return graph.Apply1(unaryOp{ops.Expm1}, x) }

// Log returns the natural logarithm of x: -Inf at 0, NaN below.
func Log(x *graph.Value) *graph.Value { return graph.Apply1(unaryOp{ops.Log}, x) }

// Log1p returns ln(1 + x), accurate near 0.
func Log1p(x *graph.Value) *graph.Value { return graph.Apply1(unaryOp{ops.Log1p}, x) }

// Sqrt returns the square root of x, NaN below 0. The derivative at 0 is +Inf.
func Sqrt(x *graph.Value) *graph.Value { return graph.Apply1(unaryOp{ops.Sqrt}, x) }

// Rsqrt returns 1 / √x, rounded once: +Inf at 0, NaN below.
func Rsqrt(x *graph.Value) *graph.Value { return graph.Apply1(unaryOp{ops.Rsqrt}, x) }

// Sin returns the sine of x radians.
func Sin(x *graph.Value) *graph.Value { return graph.Apply1(unaryOp{ops.Sin}, x) }

// Cos returns the cosine of x radians.
func Cos(x *graph.Value) *graph.Value { return graph.Apply1(unaryOp{ops.Cos}, x) }

// Tanh returns the hyperbolic tangent of x.
func Tanh(x *graph.Value) *graph.Value { return graph.Apply1(unaryOp{ops.Tanh}, x) }

// Logistic returns 1 / (1 + e⁻ˣ), the sigmoid. It overflows nowhere.
func Logistic(x *graph.Value) *graph.Value { return graph.Apply1(unaryOp{ops.Logistic}, x) }

// Erf returns the error function 2/√π · ∫₀ˣ exp(-t²) dt.
func Erf(x *graph.Value) *graph.Value { return graph.Apply1(unaryOp{ops.Erf}, x) }

func (u unaryOp) Name() string { return u.op.String() }

func (u unaryOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	op, ok := u.of()
	if !ok {
		return nil, fmt.Errorf("no unary function %s", quoted.Text(u.op.String()))
	}
	return in, op.of.check(in[0])
}

func (u unaryOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	op, _ := u.of()
	if op.vjp == nil {
		return nil, nil
	}
	return []*graph.Value{op.vjp(e.In[0], e.Out[0], ct[0])}, nil
}

func (u unaryOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	l := sharding.NotLinear
	if u.op == ops.Neg {
		l = sharding.LinearTogether
	}
	return c.Place(sharding.Elementwise(c.Type(0), 1, 1, l))
}

// Pointwise says that the result is a constant, in any placement, if the arguments are constants.
func (unaryOp) Pointwise() {}

func (u unaryOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: u.op, Out: out, In: in, Elementwise: true, Kernel: unaryKernel(u.op)})
}

func (u unaryOp) Doc() graph.Doc {
	op, _ := u.of()
	return graph.Doc{Args: "x " + op.of.letter() + "[..]", Results: op.of.letter() + "[..]", Formula: "y = " + op.formula, Notes: op.notes}
}

// operands is the set of element types that a function takes.
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

func unaryFamily() []graph.Primitive {
	var all []graph.Primitive
	for op := ops.Neg; op <= ops.Erf; op++ {
		all = append(all, unaryOp{op})
	}
	return all
}
