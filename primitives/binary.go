package primitives

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// Binary is the family of elementwise functions of two arguments of one type.
type Binary struct{ op string }

var _ Primitive = Binary{}

// Add returns x + y. Both have one type; broadcasting is explicit.
func Add(x, y *graph.Value) *graph.Value { return graph.Apply1(Binary{"add"}, x, y) }

// Sub returns x - y.
func Sub(x, y *graph.Value) *graph.Value { return graph.Apply1(Binary{"sub"}, x, y) }

// Mul returns x · y.
func Mul(x, y *graph.Value) *graph.Value { return graph.Apply1(Binary{"mul"}, x, y) }

// Div returns x / y.
func Div(x, y *graph.Value) *graph.Value { return graph.Apply1(Binary{"div"}, x, y) }

func (b Binary) Name() string { return b.op }

func (b Binary) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if err := alike(in); err != nil {
		return nil, err
	}
	return in[:1], floating(in[0])
}

func (b Binary) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, y, g := e.In[0], e.In[1], ct[0]
	switch b.op {
	case "add":
		return []*graph.Value{g, g}, nil
	case "sub":
		return []*graph.Value{g, Neg(g)}, nil
	case "mul":
		return []*graph.Value{Mul(g, y), Mul(g, x)}, nil
	default: // div
		return []*graph.Value{Div(g, y), Neg(Div(Mul(g, e.Out[0]), y))}, nil
	}
}

func (b Binary) Shard(c *sharding.Context) (sharding.Decision, error) {
	l := sharding.NotLinear
	switch b.op {
	case "add", "sub":
		l = sharding.LinearTogether
	case "mul":
		l = sharding.LinearEach
	case "div":
		l = sharding.LinearFirst
	}
	return c.Place(sharding.Elementwise(c.Type(0), 2, 1, l))
}

func (b Binary) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Elementwise(b.op, out, in, inFloat(mapBinary[float32](b.op), mapBinary[float64](b.op)))
}

func mapBinary[T Float](op string) lowering.Kernel {
	return func(a *lowering.Args) error {
		x, y, z := data[T](a.In[0]), data[T](a.In[1]), data[T](a.Out[0])
		a.Parallel(len(z), 1<<14, func(lo, hi int) {
			switch op {
			case "add":
				for i := lo; i < hi; i++ {
					z[i] = x[i] + y[i]
				}
			case "sub":
				for i := lo; i < hi; i++ {
					z[i] = x[i] - y[i]
				}
			case "mul":
				for i := lo; i < hi; i++ {
					z[i] = x[i] * y[i]
				}
			case "div":
				for i := lo; i < hi; i++ {
					z[i] = x[i] / y[i]
				}
			}
		})
		return nil
	}
}

func (b Binary) Doc() graph.Doc {
	sign := map[string]string{"add": "x + y", "sub": "x - y", "mul": "x · y", "div": "x / y"}[b.op]
	return graph.Doc{Args: "x f[..], y f[..]", Results: "f[..]", Formula: "z = " + sign}
}

func binaryFamily() []graph.Primitive {
	return []graph.Primitive{Binary{"add"}, Binary{"sub"}, Binary{"mul"}, Binary{"div"}}
}
