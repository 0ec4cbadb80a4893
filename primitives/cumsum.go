package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// cumSumOp is the running sum along Axis, starting at index 0 or, with Reverse, at
// the last index. Each sum includes the element at its index. f64 and f32 are summed
// in f64, rounding each result separately; integers wrap.
type cumSumOp struct {
	Axis    int
	Reverse bool
}

var _ primitive = cumSumOp{}

// CumSum returns the running sums of x along axis.
func CumSum(x *graph.Value, axis int) *graph.Value { return graph.Apply1(cumSumOp{Axis: axis}, x) }

func (cumSumOp) Name() string { return "cumsum" }

func (c cumSumOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if in[0].DType == graph.Bool {
		return nil, fmt.Errorf("element type bool is not summed; convert with convert_element_type")
	}
	return in, axisOf(in[0], c.Axis)
}

// VJP returns the running sum of the cotangent from the other end.
func (c cumSumOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{graph.Apply1(cumSumOp{c.Axis, !c.Reverse}, ct[0])}, nil
}

func (c cumSumOp) Shard(ctx *sharding.Context) (sharding.Decision, error) {
	f := alongAxis(ctx.Type(0), c.Axis, 1)
	f.Linear = sharding.LinearTogether
	return ctx.Place(f)
}

func (c cumSumOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	widen := inFloat(cumsum[float32, float64](c), cumsum[float64, float64](c))
	return e.Emit(lowering.KernelSpec{Op: ops.CumSum, Out: out, In: in, InPlace: true, Dry: widening(), Kernel: func(a *exec.Args) error {
		switch a.In[0].Type.DType {
		case graph.I32:
			return cumsum[int32, int32](c)(a)
		case graph.I64:
			return cumsum[int64, int64](c)(a)
		case graph.U32:
			return cumsum[uint32, uint32](c)(a)
		case graph.U8:
			return cumsum[uint8, uint8](c)(a)
		}
		return widen(a)
	}})
}

// cumsum sums elements of type T in type A.
func cumsum[T, A numeric](c cumSumOp) exec.Kernel {
	return func(a *exec.Args) error {
		x, y := data[T](a.In[0]), data[T](a.Out[0])
		outer, n, inner := a.In[0].Type.Around(c.Axis)
		a.Parallel(outer, 1+dear/(1+n*inner), func(lo, hi int) {
			acc := make([]A, inner)
			for o := lo; o < hi; o++ {
				clear(acc)
				for i := range n {
					if c.Reverse {
						i = n - 1 - i
					}
					at := (o*n + i) * inner
					for j, v := range x[at : at+inner] {
						acc[j] += A(v)
						y[at+j] = T(acc[j])
					}
				}
			}
		})
		return nil
	}
}

func (cumSumOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "t[..]", Formula: "yᵢ = Σ xⱼ over j ≤ i along axis (j ≥ i with reverse)",
		Params: "axis: one of x's; reverse: sum from the last index down"}
}
