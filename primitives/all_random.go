package primitives

import "github.com/gomoe/gomoe/graph"

func randomFamily() []graph.Primitive {
	return []graph.Primitive{
		randomSeed{}, randomFoldIn{}, randomSplit{}, randomBits{}, randomUniform{}, randomNormal{},
	}
}
