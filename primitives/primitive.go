package primitives

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// primitive is what every operation of this package implements.
type primitive interface {
	graph.Documented
	vjp.Rule
	sharding.Rule
	lowering.Rule
}

// flexible is implemented by those whose result can be made in any placement.
type flexible interface {
	primitive
	sharding.Flexible
}

// pointwise is implemented by those whose result is constant where their
// arguments are.
type pointwise interface {
	primitive
	sharding.Pointwise
}
