package primitives

import "github.com/gomoe/gomoe/graph"

func composedFamily() []graph.Primitive {
	return []graph.Primitive{
		rmsNorm{}, rmsNormGrad{}, rmsNormGainGrad{},
	}
}
