package primitives

import (
	"reflect"
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// All returns a prototype of every primitive, in the order of the reference,
// for graph.Parse and for tools. A primitive missing here cannot be parsed. The
// table test fails for a primitive listed here without a test.
//
// When adding a primitive, add an entry here. Failing tests name the rest: a row of programs, a JAX
// test case, an expression or a kernel for Metal.
func All() []graph.Primitive {
	return slices.Concat(
		elementwiseFamily(ops.Neg, ops.Erf),
		[]graph.Primitive{roundOp{elementwiseOp: elementwiseOf(ops.Round)}, elementwiseOf(ops.IsFinite)},
		elementwiseFamily(ops.Add, ops.Min), elementwiseFamily(ops.Eq, ops.Ge), elementwiseFamily(ops.Not, ops.Xor),
		[]graph.Primitive{
			selectNOp{}, clampOp{}, convertElementTypeOp{}, stopGradientOp{},

			reshapeOp{}, broadcastInDimOp{}, transposeOp{}, concatenateOp{}, sliceOp{}, padOp{}, reverseOp{}, iotaOp{},
			dynamicSliceOp{}, dynamicUpdateSliceOp{}, gatherOp{}, scatterAddOp{}, oneHotOp{}, shardingConstraintOp{},

			reduceSumOp{}, reduceProdOp{}, reduceExtremeOp{op: ops.ReduceMax}, reduceExtremeOp{op: ops.ReduceMin},
			argExtremeOp{op: ops.ArgMax}, argExtremeOp{op: ops.ArgMin}, cumSumOp{}, sortOp{}, topKOp{}, takeAlongAxisOp{}, addAlongAxisOp{}, dotGeneralOp{}, scaledMatMulOp{}, affineMatMulOp{},

			softmaxOp{op: ops.Softmax}, softmaxOp{op: ops.SoftmaxGrad}, softmaxOp{op: ops.LogSoftmax}, softmaxOp{op: ops.LogSoftmaxGrad}, softmaxOp{op: ops.LogSumExp},
			embeddingOp{}, embeddingGradOp{},
			elementwiseOf(ops.SiLU), elementwiseOf(ops.SiLUGrad), elementwiseOf(ops.SwiGLU), swigluGradOp{elementwise{ops.SwiGLUGrad}},
			geluOp{elementwiseOp: elementwiseOf(ops.GELU)}, geluOp{elementwiseOp: elementwiseOf(ops.GELUGrad)},
			crossEntropyOp{}, crossEntropyGradOp{},
			layerNormOp{}, layerNormGradOp{}, layerNormGainGradOp{},
			RoPEOp{}, attentionOp{}, attentionGradOp{}, cacheUpdateOp{}, recurrenceOp{}, recurrenceGradOp{}, causalConvolutionOp{}, causalConvolutionGradOp{},
			AdamWOp{},
			rmsNormOp{}, rmsNormGradOp{}, rmsNormGainGradOp{},

			randomSeedOp{}, randomFoldInOp{}, randomSplitOp{}, randomBitsOp{}, randomUniformOp{}, randomNormalOp{}, stochasticRoundOp{},

			PrepareOp{}, CopiesOp{}, DispatchOp{}, CombineOp{}, groupedMatMulOp{}, groupedOuterOp{}, groupedScaledMatMulOp{}, groupedAffineMatMulOp{}, RouteOp{},
		},
	)
}

// NameOf returns the name of a primitive of this package or of package graph, and "" for the primitives
// of other packages, which may have the same name.
func NameOf(p graph.Primitive) string {
	switch reflect.TypeOf(p).PkgPath() {
	case reflect.TypeFor[graph.FullOp]().PkgPath(), reflect.TypeFor[primitive]().PkgPath():
		return p.Name()
	}
	return ""
}
