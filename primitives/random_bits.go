package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/random"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// randomBitsOp draws integers all of whose bits are random.
type randomBitsOp struct {
	DType graph.DType
	Shape []int
}

var _ flexible = randomBitsOp{}

// RandomBits returns a value of the shape, of u32 or u8, with random bits:
// jax.random.bits(key, shape, dtype).
func RandomBits(key *graph.Value, d graph.DType, shape ...int) *graph.Value {
	return graph.Apply1(randomBitsOp{d, slices.Clone(shape)}, key)
}

func (randomBitsOp) Name() string { return "random_bits" }

func (r randomBitsOp) Infer(in []graph.Type) ([]graph.Type, error) {
	unsigned := func(d graph.DType) bool { return d == graph.U32 || d == graph.U8 }
	return inferDraw(in, graph.Type{DType: r.DType, Shape: r.Shape}, unsigned, "u32 or u8")
}

func (randomBitsOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (randomBitsOp) Shard(*sharding.Context) (sharding.Decision, error) { return shardDraw() }

func (randomBitsOp) ShardAs(c *sharding.Context, out sharding.Spec) (sharding.Decision, error) {
	return shardDrawAs(c, out)
}

func (r randomBitsOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	if r.DType == graph.U8 {
		return lowerDraw(e, ops.RandomBits, out, in, random.Bits8)
	}
	return lowerDraw(e, ops.RandomBits, out, in, random.Bits32)
}

func (randomBitsOp) Doc() graph.Doc {
	return graph.Doc{Args: "key u32[2]", Results: "u32[shape] or u8[shape]", Formula: "y[i] = xor of the two words of threefry2x32(key, flat index of i)",
		Params: "dtype: u32, or u8 for the low bytes; shape: sizes", Notes: drawNotes}
}
