package primitives

import "github.com/gomoe/gomoe/graph"

func moeFamily() []graph.Primitive {
	return []graph.Primitive{EPPrepare{}, EPDispatch{}, EPCombine{}, GroupedMatmul{}, GroupedOuter{}, Router{}}
}
