package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
)

// All returns a prototype of every primitive, in the order of the reference,
// for graph.Parse and for tools. A primitive that is not listed here cannot be
// parsed, and the table test fails for one that is listed and not tested.
func All() []graph.Primitive {
	return slices.Concat(
		elementwiseFamily(),
		shapeFamily(),
		reduceFamily(),
		composedFamily(),
		randomFamily(),
		moeFamily(),
	)
}
