package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
)

func elementwiseFamily() []graph.Primitive {
	return slices.Concat(unaryFamily(), binaryFamily())
}
