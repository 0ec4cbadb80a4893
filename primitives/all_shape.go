package primitives

import "github.com/gomoe/gomoe/graph"

func shapeFamily() []graph.Primitive {
	return []graph.Primitive{
		ReshapeOp{}, BroadcastInDimOp{}, TransposeOp{}, ConcatenateOp{}, SliceOp{}, PadOp{}, ReverseOp{}, IotaOp{},
		DynamicSliceOp{}, DynamicUpdateSliceOp{}, GatherOp{}, ScatterAddOp{}, OneHotOp{}, ShardingConstraintOp{},
	}
}
