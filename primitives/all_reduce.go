package primitives

import "github.com/gomoe/gomoe/graph"

func reduceFamily() []graph.Primitive {
	return []graph.Primitive{
		ReduceSum{}, ReduceProd{}, ReduceExtreme{op: "max"}, ReduceExtreme{op: "min"},
		ArgExtreme{op: "argmax"}, ArgExtreme{op: "argmin"}, CumSum{}, SortAlong{}, TopKOf{}, AlongAxis{}, AddAlongAxis{}, Dot{},
	}
}
