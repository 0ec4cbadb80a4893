package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/random"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// RandomBitsOp draws integers all of whose bits are random.
type RandomBitsOp struct {
	DType graph.DType
	Shape []int
}

var _ flexible = RandomBitsOp{}

// RandomBits returns a value of the shape, of u32 or u8, with random bits:
// jax.random.bits(key, shape, dtype).
func RandomBits(key *graph.Value, d graph.DType, shape ...int) *graph.Value {
	return graph.Apply1(RandomBitsOp{d, slices.Clone(shape)}, key)
}

func (RandomBitsOp) Name() string { return "random_bits" }

func (r RandomBitsOp) Infer(in []graph.Type) ([]graph.Type, error) {
	unsigned := func(d graph.DType) bool { return d == graph.U32 || d == graph.U8 }
	return inferDraw(in, graph.Type{DType: r.DType, Shape: r.Shape}, unsigned, "u32 or u8")
}

func (RandomBitsOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (RandomBitsOp) Shard(*sharding.Context) (sharding.Decision, error) { return shardDraw() }

func (RandomBitsOp) ShardAs(c *sharding.Context, out sharding.Spec) (sharding.Decision, error) {
	return shardDrawAs(c, out)
}

func (r RandomBitsOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	if r.DType == graph.U8 {
		return lowerDraw(e, ops.RandomBits, out, in, random.Bits8)
	}
	return lowerDraw(e, ops.RandomBits, out, in, random.Bits32)
}

func (RandomBitsOp) Doc() graph.Doc {
	return graph.Doc{Args: "key u32[2]", Results: "u32[shape] or u8[shape]", Formula: "y[i] = xor of the two words of threefry2x32(key, flat index of i)",
		Params: "dtype: u32, or u8 for the low bytes; shape: sizes", Notes: drawNotes}
}
