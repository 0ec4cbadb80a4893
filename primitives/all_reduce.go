package primitives

import "github.com/gomoe/gomoe/graph"

func reduceFamily() []graph.Primitive {
	return []graph.Primitive{
		ReduceSumOp{}, ReduceProdOp{}, ReduceExtremeOp{op: "max"}, ReduceExtremeOp{op: "min"},
		ArgExtremeOp{op: "argmax"}, ArgExtremeOp{op: "argmin"}, CumSumOp{}, SortOp{}, TopKOp{}, TakeAlongAxisOp{}, AddAlongAxisOp{}, DotGeneralOp{},
	}
}
