package toy

import (
	"errors"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// sum adds all elements. Over a split dimension it leaves a sum pending.
type sum struct{}

// Sum returns the sum of all elements of x, a scalar.
func Sum(x *graph.Value) *graph.Value { return graph.Apply1(sum{}, x) }

func (sum) Name() string { return "sum" }
func (sum) Infer(in []graph.Type) ([]graph.Type, error) {
	return []graph.Type{{DType: in[0].DType}}, nil
}

func (sum) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{Spread(ct[0], e.In[0].Type.Shape...)}, nil
}

func (sum) Shard(c *sharding.Context) (sharding.Decision, error) {
	dims := sharding.Elementwise(c.Type(0), 1, 0, 0).In[0]
	return c.Place(sharding.Factors{In: [][]int{dims}, Out: [][]int{nil}, Sum: dims, Linear: sharding.LinearTogether})
}

func (sum) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: Op("sum"), Out: out, In: in, Kernel: func(a *exec.Args) error {
		s := 0.0
		for _, x := range a.In[0].Float64s() {
			s += x
		}
		return a.Out[0].SetFloat64s([]float64{s})
	}})
}

// spread repeats a scalar. A rank can make its part of the result in any placement.
type spread struct{ Shape []int }

// Spread returns a value of this shape with all elements equal to x, a scalar.
func Spread(x *graph.Value, shape ...int) *graph.Value { return graph.Apply1(spread{shape}, x) }

func (spread) Name() string { return "spread" }

func (s spread) Infer(in []graph.Type) ([]graph.Type, error) {
	if in[0].Rank() != 0 {
		return nil, errors.New("want a scalar")
	}
	return []graph.Type{{DType: in[0].DType, Shape: s.Shape}}, nil
}

func (spread) VJP(_ *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{Sum(ct[0])}, nil
}

func (s spread) Shard(*sharding.Context) (sharding.Decision, error) {
	return sharding.Decision{In: []sharding.Spec{{}}, Out: []sharding.Spec{{}}}, nil
}

func (s spread) ShardAs(_ *sharding.Context, out sharding.Spec) (sharding.Decision, error) {
	return sharding.Decision{In: []sharding.Spec{{}}, Out: []sharding.Spec{out}}, nil
}

func (spread) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: Op("spread"), Out: out, In: in, Kernel: func(a *exec.Args) error {
		a.Out[0].Fill(a.In[0].Float64s()[0])
		return nil
	}})
}
