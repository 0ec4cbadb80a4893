package primitives

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// roundOp rounds to the nearest whole number, and halves away from zero or, with
// ToEven, to the even one.
type roundOp struct{ ToEven bool }

var _ primitive = roundOp{}

// Round returns x rounded to the nearest whole number, halves away from zero.
func Round(x *graph.Value) *graph.Value { return graph.Apply1(roundOp{}, x) }

// RoundToEven returns x rounded to the nearest whole number, halves to the even
// one.
func RoundToEven(x *graph.Value) *graph.Value { return graph.Apply1(roundOp{ToEven: true}, x) }

func (roundOp) Name() string { return "round" }

func (roundOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	return in, floating(in[0])
}

// VJP is zero everywhere.
func (roundOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

// Pointwise says that the result is a constant, in any placement, if the arguments are constants.
func (roundOp) Pointwise() {}

func (roundOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), 1, 1, sharding.NotLinear))
}

func (r roundOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	f32, f64 := vector.Round[float32], vector.Round[float64]
	if r.ToEven {
		f32, f64 = vector.RoundToEven[float32], vector.RoundToEven[float64]
	}
	wide := func(_ *exec.Args, _, _ int, y []float32, x [][]float32) { f32(y, x[0]) }
	return e.Emit(lowering.KernelSpec{Op: ops.Round, Out: out, In: in, Elementwise: true, Kernel: func(a *exec.Args) error {
		switch a.Out[0].Type.DType {
		case graph.F64:
			each1(a, dear, f64)
		case graph.F32:
			each1(a, cheap, f32)
		default:
			tiled(a, dear, wide)
		}
		return nil
	}})
}

func (roundOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..]", Results: "f[..]", Formula: "y = the nearest whole number, halves away from zero",
		Params: "to_even: halves go to the even neighbour instead", Notes: "The derivative is 0."}
}
