package primitives

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// compareOp is the family of elementwise comparisons of two arguments of the same
// type. A NaN is unequal to everything, also to itself, and neither less nor
// greater than anything; false is less than true.
type compareOp struct{ op ops.Op }

var _ pointwise = compareOp{}

// Eq returns whether x = y.
func Eq(x, y *graph.Value) *graph.Value { return graph.Apply1(compareOp{ops.Eq}, x, y) }

// Ne returns whether x ≠ y.
func Ne(x, y *graph.Value) *graph.Value { return graph.Apply1(compareOp{ops.Ne}, x, y) }

// Lt returns whether x < y.
func Lt(x, y *graph.Value) *graph.Value { return graph.Apply1(compareOp{ops.Lt}, x, y) }

// Le returns whether x ≤ y.
func Le(x, y *graph.Value) *graph.Value { return graph.Apply1(compareOp{ops.Le}, x, y) }

// Gt returns whether x > y.
func Gt(x, y *graph.Value) *graph.Value { return graph.Apply1(compareOp{ops.Gt}, x, y) }

// Ge returns whether x ≥ y.
func Ge(x, y *graph.Value) *graph.Value { return graph.Apply1(compareOp{ops.Ge}, x, y) }

func (c compareOp) Name() string { return c.op.String() }

func (c compareOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if err := alike(in); err != nil {
		return nil, err
	}
	return []graph.Type{in[0].With(graph.Bool)}, nil
}

// VJP returns nil: the result is not a float.
func (compareOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (compareOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), 2, 1, sharding.NotLinear))
}

// Pointwise says that the result is a constant, in any placement, if the arguments are constants.
func (compareOp) Pointwise() {}

func (c compareOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	f32, f64, i32, i64 := compareFloat(c.op), compare[float64](c.op), compare[int32](c.op), compare[int64](c.op)
	u32, u8 := compare[uint32](c.op), compare[uint8](c.op)
	wide := func(a *exec.Args, lo, hi int, _ []float32, x [][]float32) {
		f32(data[bool](a.Out[0])[lo:hi], x[0], x[1])
	}
	return e.Emit(lowering.KernelSpec{Op: c.op, Out: out, In: in, Elementwise: true, Kernel: func(a *exec.Args) error {
		switch a.In[0].Type.DType {
		case graph.F64:
			each2(a, cheap, f64)
		case graph.I32:
			each2(a, cheap, i32)
		case graph.I64:
			each2(a, cheap, i64)
		case graph.U32:
			each2(a, cheap, u32)
		case graph.U8:
			each2(a, cheap, u8)
		case graph.Bool:
			u8(data[bool](a.Out[0]), bits[uint8](a.In[0]), bits[uint8](a.In[1]))
		default:
			tiled(a, cheap, wide)
		}
		return nil
	}})
}

// compareFloat returns the loop of a comparison of float32.
func compareFloat(op ops.Op) func(z []bool, x, y []float32) {
	switch op {
	case ops.Eq:
		return vector.Equal[float32]
	case ops.Ne:
		return vector.Unequal[float32]
	case ops.Lt:
		return vector.Less[float32]
	case ops.Le:
		return vector.AtMost[float32]
	case ops.Gt:
		return vector.Greater[float32]
	default:
		return vector.AtLeast[float32]
	}
}

func compare[T number](op ops.Op) func(z []bool, x, y []T) {
	switch op {
	case ops.Eq:
		return func(z []bool, x, y []T) {
			for i := range z {
				z[i] = x[i] == y[i]
			}
		}
	case ops.Ne:
		return func(z []bool, x, y []T) {
			for i := range z {
				z[i] = x[i] != y[i]
			}
		}
	case ops.Lt:
		return func(z []bool, x, y []T) {
			for i := range z {
				z[i] = x[i] < y[i]
			}
		}
	case ops.Le:
		return func(z []bool, x, y []T) {
			for i := range z {
				z[i] = x[i] <= y[i]
			}
		}
	case ops.Gt:
		return func(z []bool, x, y []T) {
			for i := range z {
				z[i] = x[i] > y[i]
			}
		}
	default: // ge
		return func(z []bool, x, y []T) {
			for i := range z {
				z[i] = x[i] >= y[i]
			}
		}
	}
}

func (c compareOp) Doc() graph.Doc {
	sign := map[ops.Op]string{ops.Eq: "=", ops.Ne: "≠", ops.Lt: "<", ops.Le: "≤", ops.Gt: ">", ops.Ge: "≥"}[c.op]
	return graph.Doc{Args: "x t[..], y t[..]", Results: "bool[..]", Formula: "z = (x " + sign + " y)",
		Notes: "A NaN is unequal to everything and in no order; false < true."}
}

func compareFamily() []graph.Primitive {
	var all []graph.Primitive
	for op := ops.Eq; op <= ops.Ge; op++ {
		all = append(all, compareOp{op})
	}
	return all
}
