package primitives

import "github.com/gomoe/gomoe/graph"

func moeFamily() []graph.Primitive {
	return []graph.Primitive{PrepareOp{}, DispatchOp{}, CombineOp{}, GroupedMatMulOp{}, GroupedOuterOp{}, RouteOp{}}
}
