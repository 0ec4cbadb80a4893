package primitives

import "github.com/gomoe/gomoe/graph"

func shapeFamily() []graph.Primitive {
	return []graph.Primitive{ReshapeTo{}, BroadcastInDim{}, Permute{}}
}
