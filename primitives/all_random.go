package primitives

import "github.com/gomoe/gomoe/graph"

func randomFamily() []graph.Primitive {
	return []graph.Primitive{
		RandomSeedOp{}, RandomFoldInOp{}, RandomSplitOp{}, RandomBitsOp{}, RandomUniformOp{}, RandomNormalOp{},
	}
}
