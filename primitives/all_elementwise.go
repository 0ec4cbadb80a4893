package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
)

func elementwiseFamily() []graph.Primitive {
	return slices.Concat(
		unaryFamily(),
		[]graph.Primitive{RoundOp{}, IsFiniteOp{}},
		binaryFamily(),
		comparisonFamily(),
		logicalFamily(),
		[]graph.Primitive{SelectNOp{}, ClampOp{}, ConvertElementTypeOp{}, StopGradientOp{}},
	)
}
