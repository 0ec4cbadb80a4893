package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/random"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// randomSplitOp makes Num keys from one.
type randomSplitOp struct{ Num int }

var _ flexible = randomSplitOp{}

// RandomSplit returns n new keys u32[n,2] made from key. Do not use key for
// anything else afterwards. The first keys do not depend on n.
func RandomSplit(key *graph.Value, n int) *graph.Value {
	return graph.Apply1(randomSplitOp{n}, key)
}

func (randomSplitOp) Name() string { return "random_split" }

func (r randomSplitOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if r.Num < 0 {
		return nil, fmt.Errorf("num %d, want at least 0", r.Num)
	}
	return inferDraw(in, graph.Type{DType: graph.U32, Shape: []int{r.Num, 2}}, graph.DType.IsInt, "u32")
}

func (randomSplitOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (randomSplitOp) Shard(*sharding.Context) (sharding.Decision, error) { return shardDraw() }

func (randomSplitOp) ShardAs(c *sharding.Context, out sharding.Spec) (sharding.Decision, error) {
	return shardDrawAs(c, out)
}

func (randomSplitOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return lowerDraw(e, ops.RandomSplit, out, in, func(dst []uint32, key [2]uint32, offset uint64) {
		for i := range dst {
			at := offset + uint64(i) // the word at%2 of key at/2
			dst[i] = random.Threefry2x32(key, random.Seed(at/2))[at%2]
		}
	})
}

func (randomSplitOp) Doc() graph.Doc {
	return graph.Doc{Args: "key u32[2]", Results: "u32[num,2]", Formula: "keys[i] = threefry2x32(key, i)",
		Params: "num: number of keys", Notes: "jax.random.split. " + drawNotes}
}
