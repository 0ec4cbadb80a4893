package primitives

import "github.com/gomoe/gomoe/graph"

func shapeFamily() []graph.Primitive {
	return []graph.Primitive{
		ReshapeTo{}, BroadcastInDim{}, Permute{}, Join{}, Cut{}, Surround{}, Rev{}, Count{},
		DynamicCut{}, DynamicUpdate{}, Take{}, Scatter{}, Indicator{}, Constraint{},
	}
}
