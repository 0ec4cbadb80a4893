package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
)

func elementwiseFamily() []graph.Primitive {
	return slices.Concat(
		unaryFamily(),
		[]graph.Primitive{Rounding{}, Finiteness{}},
		binaryFamily(),
		comparisonFamily(),
		logicalFamily(),
		[]graph.Primitive{Selection{}, Clamping{}, ConvertElementType{}, GradientStop{}},
	)
}
