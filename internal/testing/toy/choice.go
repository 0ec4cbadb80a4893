package toy

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// above is 1 where x > 0 and 0 elsewhere: a discrete choice.
type above struct{}

// Above returns 1 where x > 0 and 0 elsewhere, as i32.
func Above(x *graph.Value) *graph.Value { return graph.Apply1(above{}, x) }

func (above) Name() string { return "above" }

func (above) Infer(in []graph.Type) ([]graph.Type, error) {
	return []graph.Type{in[0].With(graph.I32)}, nil
}

func (above) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (above) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), 1, 1, sharding.NotLinear))
}

func (above) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: Op("above"), Out: out, In: in, Kernel: func(a *exec.Args) error {
		y := array.Data[int32](a.Out[0])
		for i, x := range a.In[0].Float64s() {
			y[i] = 0
			if x > 0 {
				y[i] = 1
			}
		}
		return nil
	}})
}

// gate is x where the i32 choice is not 0, and 0 elsewhere.
type gate struct{}

// Gate returns x where choice, an i32, is not 0, and 0 elsewhere.
func Gate(choice, x *graph.Value) *graph.Value { return graph.Apply1(gate{}, choice, x) }

func (gate) Name() string                                { return "gate" }
func (gate) Infer(in []graph.Type) ([]graph.Type, error) { return in[1:2], nil }

func (gate) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{nil, Gate(e.In[0], ct[0])}, nil
}

func (gate) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), 2, 1, sharding.NotLinear))
}

func (gate) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: Op("gate"), Out: out, In: in, Kernel: func(a *exec.Args) error {
		y := a.In[1].Float64s()
		for i, c := range array.Data[int32](a.In[0]) {
			if c == 0 {
				y[i] = 0
			}
		}
		return a.Out[0].SetFloat64s(y)
	}})
}
