package primitives

import "github.com/gomoe/gomoe/graph"

func composedFamily() []graph.Primitive {
	return []graph.Primitive{
		SoftmaxOp{}, SoftmaxGradOp{}, LogSoftmaxOp{}, LogSoftmaxGradOp{}, LogSumExpOp{},
		EmbeddingOp{}, EmbeddingGradOp{},
		SiLUOp{}, SiLUGradOp{}, SwiGLUOp{}, SwiGLUGradOp{}, GELUOp{}, GELUGradOp{},
		CrossEntropyOp{}, CrossEntropyGradOp{},
		LayerNormOp{}, LayerNormGradOp{}, LayerNormGainGradOp{},
		RoPEOp{}, AttentionOp{}, AttentionGradOp{},
		AdamWOp{},
		RMSNormOp{}, RMSNormGradOp{}, RMSNormGainGradOp{},
	}
}
