package primitives

import "github.com/gomoe/gomoe/graph"

func reduceFamily() []graph.Primitive {
	return []graph.Primitive{ReduceSum{}, Dot{}}
}
