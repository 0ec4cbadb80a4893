package toy

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// Map is an elementwise function of float arguments of the same type.
type Map struct {
	By float64 // the parameter of scale

	name   string
	f      func(by float64, x []float64) float64
	linear sharding.Linearity
	vjp    func(e *graph.Eqn, ct *graph.Value) []*graph.Value
}

// Add returns x + y.
func Add(x, y *graph.Value) *graph.Value { return graph.Apply1(maps()["add"], x, y) }

// Mul returns x · y.
func Mul(x, y *graph.Value) *graph.Value { return graph.Apply1(maps()["mul"], x, y) }

// Div returns x / y, linear in x.
func Div(x, y *graph.Value) *graph.Value { return graph.Apply1(maps()["div"], x, y) }

// Square returns x², which is not linear.
func Square(x *graph.Value) *graph.Value { return graph.Apply1(maps()["square"], x) }

// Scale returns by · x.
func Scale(by float64, x *graph.Value) *graph.Value {
	m := maps()["scale"]
	m.By = by
	return graph.Apply1(m, x)
}

func maps() map[string]Map {
	list := func(v ...*graph.Value) []*graph.Value { return v }
	return map[string]Map{
		"add": {name: "add", linear: sharding.LinearTogether,
			f:   func(_ float64, x []float64) float64 { return x[0] + x[1] },
			vjp: func(e *graph.Eqn, ct *graph.Value) []*graph.Value { return list(ct, ct) }},
		"mul": {name: "mul", linear: sharding.LinearEach,
			f:   func(_ float64, x []float64) float64 { return x[0] * x[1] },
			vjp: func(e *graph.Eqn, ct *graph.Value) []*graph.Value { return list(Mul(ct, e.In[1]), Mul(ct, e.In[0])) }},
		"div": {name: "div", linear: sharding.LinearFirst,
			f: func(_ float64, x []float64) float64 { return x[0] / x[1] },
			vjp: func(e *graph.Eqn, ct *graph.Value) []*graph.Value {
				return list(Div(ct, e.In[1]), Scale(-1, Div(Mul(ct, e.Out[0]), e.In[1])))
			}},
		"square": {name: "square",
			f:   func(_ float64, x []float64) float64 { return x[0] * x[0] },
			vjp: func(e *graph.Eqn, ct *graph.Value) []*graph.Value { return list(Scale(2, Mul(ct, e.In[0]))) }},
		"scale": {name: "scale", linear: sharding.LinearTogether,
			f: func(by float64, x []float64) float64 { return by * x[0] },
			vjp: func(e *graph.Eqn, ct *graph.Value) []*graph.Value {
				return list(Scale(e.Prim.(Map).By, ct))
			}},
	}
}

func (m Map) Name() string { return m.name }

func (m Map) Infer(in []graph.Type) ([]graph.Type, error) {
	for _, t := range in {
		if !t.Equal(in[0]) || !t.DType.IsFloat() {
			return nil, fmt.Errorf("want floats of one type")
		}
	}
	return in[:1], nil
}

func (m Map) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return m.vjp(e, ct[0]), nil
}

func (m Map) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), len(c.In), 1, m.linear))
}

func (m Map) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: Op(m.name), Out: out, In: in, Elementwise: true, Kernel: func(a *exec.Args) error {
		if a.Out[0].Type.DType == graph.F32 {
			return apply[float32](m, a)
		}
		return apply[float64](m, a)
	}})
}

// apply computes elements in pieces of 4, so that threads share them.
func apply[T float32 | float64](m Map, a *exec.Args) error {
	y := array.Data[T](a.Out[0])
	a.Parallel(len(y), 4, func(lo, hi int) {
		var x [2]float64
		for i := lo; i < hi; i++ {
			for k, arg := range a.In {
				x[k] = float64(array.Data[T](arg)[i])
			}
			y[i] = T(m.f(m.By, x[:len(a.In)]))
		}
	})
	return nil
}
