package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// binaryOp is the family of elementwise functions of two arguments of the same type
// whose result has that type too.
type binaryOp struct{ op ops.Op }

var _ pointwise = binaryOp{}

// Add returns x + y. Both have the same type; broadcasting is explicit. Integers
// wrap, as in all functions of the family.
func Add(x, y *graph.Value) *graph.Value { return graph.Apply1(binaryOp{ops.Add}, x, y) }

// Sub returns x - y.
func Sub(x, y *graph.Value) *graph.Value { return graph.Apply1(binaryOp{ops.Sub}, x, y) }

// Mul returns x · y.
func Mul(x, y *graph.Value) *graph.Value { return graph.Apply1(binaryOp{ops.Mul}, x, y) }

// Div returns x / y. Quotients of integers are truncated towards 0. An integer
// divided by 0 gives -1, that is, all bits set: the greatest value of an unsigned
// type. The run does not fail.
func Div(x, y *graph.Value) *graph.Value { return graph.Apply1(binaryOp{ops.Div}, x, y) }

// Rem returns x - y · trunc(x/y), the exact remainder that has x's sign. For
// y = 0 it is NaN, or x itself for integers.
func Rem(x, y *graph.Value) *graph.Value { return graph.Apply1(binaryOp{ops.Rem}, x, y) }

// Pow returns xʸ of floats. It is NaN for negative x with a y that is not
// whole; the derivative with respect to y is NaN for every negative x, and 0
// for x = 0.
func Pow(x, y *graph.Value) *graph.Value { return graph.Apply1(binaryOp{ops.Pow}, x, y) }

// Max returns the greater of x and y, NaN where one of them is NaN. Where both are
// equal, each receives half of the cotangent.
func Max(x, y *graph.Value) *graph.Value { return graph.Apply1(binaryOp{ops.Max}, x, y) }

// Min returns the lesser of x and y, NaN where one of them is NaN. Where both are
// equal, each receives half of the cotangent.
func Min(x, y *graph.Value) *graph.Value { return graph.Apply1(binaryOp{ops.Min}, x, y) }

func (b binaryOp) Name() string { return b.op.String() }

func (b binaryOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if err := alike(in); err != nil {
		return nil, err
	}
	return in[:1], b.of().check(in[0])
}

// of returns the element types that the function takes.
func (b binaryOp) of() operands {
	switch b.op {
	case ops.Pow:
		return floats
	case ops.Max, ops.Min:
		return anything
	}
	return numbers
}

func (b binaryOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, y, z, g := e.In[0], e.In[1], e.Out[0], ct[0]
	switch b.op {
	case ops.Add:
		return []*graph.Value{g, g}, nil
	case ops.Sub:
		return []*graph.Value{g, Neg(g)}, nil
	case ops.Mul:
		return []*graph.Value{Mul(g, y), Mul(g, x)}, nil
	case ops.Div:
		return []*graph.Value{Div(g, y), Neg(Div(Mul(g, z), y))}, nil
	case ops.Rem:
		// (x-z)/y is a whole number up to rounding.
		return []*graph.Value{g, Neg(Mul(g, Round(Div(Sub(x, z), y))))}, nil
	case ops.Pow:
		return []*graph.Value{
			Mul(g, Mul(y, Pow(x, AddScalar(y, -1)))),
			Mul(g, Mul(Log(Where(Eq(x, ZerosLike(x)), OnesLike(x), x)), z)),
		}, nil
	case ops.Max, ops.Min:
		// An argument receives all of the cotangent where it alone is the result,
		// and half of it where both are.
		isX, isY, half, none := Eq(x, z), Eq(y, z), MulScalar(g, 0.5), ZerosLike(g)
		return []*graph.Value{
			Where(isX, Where(isY, half, g), none),
			Where(isY, Where(isX, half, g), none),
		}, nil
	}
	return nil, fmt.Errorf("no binary function %s", quoted.Text(b.op.String()))
}

func (b binaryOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	l := sharding.NotLinear
	switch b.op {
	case ops.Add, ops.Sub:
		l = sharding.LinearTogether
	case ops.Mul:
		l = sharding.LinearEach
	case ops.Div:
		l = sharding.LinearFirst
	}
	if !c.Type(0).DType.IsFloat() && b.op == ops.Div {
		l = sharding.NotLinear // truncation is not linear
	}
	return c.Place(sharding.Elementwise(c.Type(0), 2, 1, l))
}

// Pointwise says that the result is a constant, in any placement, if the arguments are constants.
func (binaryOp) Pointwise() {}

func (b binaryOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: b.op, Out: out, In: in, Elementwise: true, Kernel: binaryKernel(b.op)})
}

func (b binaryOp) Doc() graph.Doc {
	t := b.of().letter()
	d := graph.Doc{Args: "x " + t + "[..], y " + t + "[..]", Results: t + "[..]"}
	switch b.op {
	case ops.Add:
		d.Formula = "z = x + y"
	case ops.Sub:
		d.Formula = "z = x - y"
	case ops.Mul:
		d.Formula = "z = x · y"
	case ops.Div:
		d.Formula, d.Notes = "z = x / y", "Integers are truncated towards 0; divided by 0 they give -1, the greatest value if unsigned."
	case ops.Rem:
		d.Formula, d.Notes = "z = x - y · trunc(x/y)", "Has x's sign. For y = 0: NaN, or x for integers. Where it is NaN, so is the derivative with respect to y; jax.lax has an infinity there."
	case ops.Pow:
		d.Formula, d.Notes = "z = xʸ", "The derivative with respect to y is 0 for x = 0 and NaN for x < 0; that with respect to x is NaN where both are 0."
	default:
		d.Formula, d.Notes = "z = "+b.Name()+"(x, y)", "NaN where one is NaN. Where both are equal, each receives half of the cotangent."
	}
	return d
}

func binaryFamily() []graph.Primitive {
	var all []graph.Primitive
	for op := ops.Add; op <= ops.Min; op++ {
		all = append(all, binaryOp{op})
	}
	return all
}
