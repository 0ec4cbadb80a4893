package primitives

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// Unary is the family of elementwise functions of one float argument that
// give a result of the same type.
type Unary struct{ op string }

var _ Primitive = Unary{}

// unaryOp is one member: its value in f64 and its derivative.
type unaryOp struct {
	f       func(x float64) float64
	formula string
	// vjp returns the argument's cotangent from the argument x, the result y and
	// the result's cotangent, nil for zero.
	vjp    func(x, y, ct *graph.Value) *graph.Value
	linear bool
}

// unaryOps is a function and not a variable, since derivatives refer back to it.
func unaryOps() map[string]unaryOp {
	return map[string]unaryOp{
		"neg": {func(x float64) float64 { return -x }, "-x",
			func(_, _, ct *graph.Value) *graph.Value { return Neg(ct) }, true},
		"exp": {math.Exp, "eˣ",
			func(_, y, ct *graph.Value) *graph.Value { return Mul(ct, y) }, false},
		"log": {math.Log, "ln x",
			func(x, _, ct *graph.Value) *graph.Value { return Div(ct, x) }, false},
	}
}

// Neg returns -x.
func Neg(x *graph.Value) *graph.Value { return graph.Apply1(Unary{"neg"}, x) }

// Exp returns eˣ.
func Exp(x *graph.Value) *graph.Value { return graph.Apply1(Unary{"exp"}, x) }

// Log returns the natural logarithm of x.
func Log(x *graph.Value) *graph.Value { return graph.Apply1(Unary{"log"}, x) }

func (u Unary) Name() string { return u.op }

func (u Unary) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	return in, floating(in[0])
}

func (u Unary) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	d := unaryOps()[u.op].vjp
	if d == nil {
		return nil, nil
	}
	return []*graph.Value{d(e.In[0], e.Out[0], ct[0])}, nil
}

func (u Unary) Shard(c *sharding.Context) (sharding.Decision, error) {
	l := sharding.NotLinear
	if unaryOps()[u.op].linear {
		l = sharding.LinearTogether
	}
	return c.Place(sharding.Elementwise(c.Type(0), 1, 1, l))
}

func (u Unary) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	op, ok := unaryOps()[u.op]
	if !ok {
		return fmt.Errorf("no unary function %q", u.op)
	}
	return e.Elementwise(u.op, out, in, inFloat(mapUnary[float32](op.f), mapUnary[float64](op.f)))
}

func mapUnary[T Float](f func(float64) float64) lowering.Kernel {
	return func(a *lowering.Args) error {
		x, y := data[T](a.In[0]), data[T](a.Out[0])
		a.Parallel(len(y), 4096, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				y[i] = T(f(float64(x[i])))
			}
		})
		return nil
	}
}

func (u Unary) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..]", Results: "f[..]", Formula: "y = " + unaryOps()[u.op].formula}
}

func unaryFamily() []graph.Primitive {
	var all []graph.Primitive
	for _, op := range slices.Sorted(maps.Keys(unaryOps())) {
		all = append(all, Unary{op})
	}
	return all
}
