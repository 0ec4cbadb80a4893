package toy

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// flatten returns its argument with one dimension, in the same memory.
type flatten struct{}

// Flatten returns x, which is whole on every rank, with one dimension.
func Flatten(x *graph.Value) *graph.Value { return graph.Apply1(flatten{}, x) }

func (flatten) Name() string { return "flatten" }

func (flatten) Infer(in []graph.Type) ([]graph.Type, error) {
	return []graph.Type{graph.T(in[0].DType, in[0].Len())}, nil
}

func (flatten) Shard(c *sharding.Context) (sharding.Decision, error) { return c.Whole() }

func (flatten) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	e.Alias(out[0], in[0])
	return nil
}
