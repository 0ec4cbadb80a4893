package primitives

import "github.com/gomoe/gomoe/graph"

func composedFamily() []graph.Primitive {
	return []graph.Primitive{
		softmax{}, softmaxGrad{}, logSoftmax{}, logSoftmaxGrad{}, logSumExp{},
		embedding{}, embeddingGrad{},
		silu{}, siluGrad{}, swiglu{}, swigluGrad{}, gelu{}, geluGrad{},
		crossEntropy{}, crossEntropyGrad{},
		layerNorm{}, layerNormGrad{}, layerNormGainGrad{},
		Rope{}, causalAttention{}, causalAttentionGrad{},
		AdamWStep{},
		rmsNorm{}, rmsNormGrad{}, rmsNormGainGrad{},
	}
}
