package lowering_test

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// placedOnly is a primitive that can be placed but not lowered.
type placedOnly struct{}

func (placedOnly) Name() string                                { return "placed_only" }
func (placedOnly) Infer(in []graph.Type) ([]graph.Type, error) { return in, nil }

func (placedOnly) Shard(c *sharding.Context) (sharding.Decision, error) {
	return sharding.Decision{In: c.In, Out: c.In}, nil
}
