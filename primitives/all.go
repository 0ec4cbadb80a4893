package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// All returns a prototype of every primitive, in the order of the reference,
// for graph.Parse and for tools. A primitive that is not listed here cannot be
// parsed. The table test fails for a primitive that is listed but not tested.
//
// A new primitive needs a file of its own and a line here. Tests that fail say what
// else it needs: a row of programs, a JAX test case, an expression or a kernel for Metal.
func All() []graph.Primitive {
	return slices.Concat(
		unaryFamily(),
		[]graph.Primitive{RoundOp{}, IsFiniteOp{}},
		binaryFamily(), compareFamily(), logicalFamily(),
		[]graph.Primitive{
			SelectNOp{}, ClampOp{}, ConvertElementTypeOp{}, StopGradientOp{},

			ReshapeOp{}, BroadcastInDimOp{}, TransposeOp{}, ConcatenateOp{}, SliceOp{}, PadOp{}, ReverseOp{}, IotaOp{},
			DynamicSliceOp{}, DynamicUpdateSliceOp{}, GatherOp{}, ScatterAddOp{}, OneHotOp{}, ShardingConstraintOp{},

			ReduceSumOp{}, ReduceProdOp{}, ReduceExtremeOp{op: ops.ReduceMax}, ReduceExtremeOp{op: ops.ReduceMin},
			ArgExtremeOp{op: ops.ArgMax}, ArgExtremeOp{op: ops.ArgMin}, CumSumOp{}, SortOp{}, TopKOp{}, TakeAlongAxisOp{}, AddAlongAxisOp{}, DotGeneralOp{}, ScaledMatMulOp{}, AffineMatMulOp{},

			SoftmaxOp{}, SoftmaxGradOp{}, LogSoftmaxOp{}, LogSoftmaxGradOp{}, LogSumExpOp{},
			EmbeddingOp{}, EmbeddingGradOp{},
			SiLUOp{}, SiLUGradOp{}, SwiGLUOp{}, SwiGLUGradOp{}, GELUOp{}, GELUGradOp{},
			CrossEntropyOp{}, CrossEntropyGradOp{},
			LayerNormOp{}, LayerNormGradOp{}, LayerNormGainGradOp{},
			RoPEOp{}, AttentionOp{}, AttentionGradOp{}, CacheUpdateOp{},
			AdamWOp{},
			RMSNormOp{}, RMSNormGradOp{}, RMSNormGainGradOp{},

			RandomSeedOp{}, RandomFoldInOp{}, RandomSplitOp{}, RandomBitsOp{}, RandomUniformOp{}, RandomNormalOp{}, StochasticRoundOp{},

			PrepareOp{}, CopiesOp{}, DispatchOp{}, CombineOp{}, GroupedMatMulOp{}, GroupedOuterOp{}, GroupedScaledMatMulOp{}, GroupedAffineMatMulOp{}, RouteOp{},
		},
	)
}
