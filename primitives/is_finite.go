package primitives

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// isFiniteOp tells numbers from infinities and NaN.
type isFiniteOp struct{}

var _ primitive = isFiniteOp{}

// IsFinite returns whether each element of x is neither infinite nor NaN.
func IsFinite(x *graph.Value) *graph.Value { return graph.Apply1(isFiniteOp{}, x) }

func (isFiniteOp) Name() string { return "is_finite" }

func (isFiniteOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if err := floating(in[0]); err != nil {
		return nil, err
	}
	return []graph.Type{in[0].With(graph.Bool)}, nil
}

// VJP returns nil: the result is not a float.
func (isFiniteOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

// Pointwise says that the result is a constant, in any placement, if the arguments are constants.
func (isFiniteOp) Pointwise() {}

func (isFiniteOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), 1, 1, sharding.NotLinear))
}

func (isFiniteOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.IsFinite, Out: out, In: in, Elementwise: true, Kernel: func(a *exec.Args) error {
		if a.In[0].Type.DType == graph.F64 {
			each1(a, cheap, finite[float64])
			return nil
		}
		tiled(a, cheap, finiteTile)
		return nil
	}})
}

func finiteTile(a *exec.Args, lo, hi int, _ []float32, x [][]float32) {
	finite(data[bool](a.Out[0])[lo:hi], x[0])
}

func finite[T float](y []bool, x []T) {
	for i, v := range x {
		y[i] = v-v == 0 // NaN for infinities and NaN
	}
}

func (isFiniteOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..]", Results: "bool[..]", Formula: "y = whether x is neither infinite nor NaN"}
}
