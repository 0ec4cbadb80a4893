package primitives

// Primitives that tests apply with parameters that no builder has.
type (
	AttentionOp           = attentionOp
	BroadcastInDimOp      = broadcastInDimOp
	ConcatenateOp         = concatenateOp
	ConvertElementTypeOp  = convertElementTypeOp
	DotGeneralOp          = dotGeneralOp
	DynamicSliceOp        = dynamicSliceOp
	DynamicUpdateSliceOp  = dynamicUpdateSliceOp
	GatherOp              = gatherOp
	GroupedMatMulOp       = groupedMatMulOp
	GroupedOuterOp        = groupedOuterOp
	GroupedScaledMatMulOp = groupedScaledMatMulOp
	IotaOp                = iotaOp
	OneHotOp              = oneHotOp
	PadOp                 = padOp
	ReshapeOp             = reshapeOp
	ReverseOp             = reverseOp
	ScaledMatMulOp        = scaledMatMulOp
	ScatterAddOp          = scatterAddOp
	ShardingConstraintOp  = shardingConstraintOp
	SliceOp               = sliceOp
	StopGradientOp        = stopGradientOp
	TransposeOp           = transposeOp
)
