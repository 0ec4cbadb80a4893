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

// flexible is implemented by primitives whose result can be made in any placement.
type flexible interface {
	primitive
	sharding.Flexible
}

// rearranging is implemented by primitives that only move elements, whose result can be made in
// any placement if all arguments are constants.
type rearranging interface {
	primitive
	sharding.Rearranging
}

// pointwise is implemented by primitives whose result is a constant if all arguments
// are constants.
type pointwise interface {
	primitive
	sharding.Pointwise
}
