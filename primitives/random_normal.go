package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/random"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// randomNormalOp draws floats of mean 0 and variance 1.
type randomNormalOp struct {
	DType graph.DType
	Shape []int
}

var _ flexible = randomNormalOp{}

// RandomNormal returns floats of the shape, normally distributed with mean 0
// and variance 1: those of jax.random.normal(key, shape, dtype), except for the
// last bits of a few (see random.Normal).
func RandomNormal(key *graph.Value, d graph.DType, shape ...int) *graph.Value {
	return graph.Apply1(randomNormalOp{d, slices.Clone(shape)}, key)
}

func (randomNormalOp) Name() string { return "random_normal" }

func (r randomNormalOp) Infer(in []graph.Type) ([]graph.Type, error) {
	return inferDraw(in, graph.Type{DType: r.DType, Shape: r.Shape}, graph.DType.IsFloat, "f32, f64, bf16 or f16")
}

func (randomNormalOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (randomNormalOp) Shard(*sharding.Context) (sharding.Decision, error) { return shardDraw() }

func (randomNormalOp) ShardAs(c *sharding.Context, out sharding.Spec) (sharding.Decision, error) {
	return shardDrawAs(c, out)
}

func (r randomNormalOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	switch r.DType {
	case graph.F64:
		return lowerDraw(e, ops.RandomNormal, out, in, random.Normal[float64])
	case graph.F32:
		return lowerDraw(e, ops.RandomNormal, out, in, random.Normal[float32])
	case graph.BF16:
		return lowerDraw(e, ops.RandomNormal, out, in, random.NormalBrain)
	default:
		return lowerDraw(e, ops.RandomNormal, out, in, random.NormalHalf)
	}
}

func (randomNormalOp) Doc() graph.Doc {
	return graph.Doc{Args: "key u32[2]", Results: "f[shape]", Formula: "y[i] = √2·erf⁻¹(u[i]), u uniform in (-1, 1)",
		Params: "dtype: a float type; shape: sizes",
		Notes:  "Of 2 million f32 against JAX on a CPU 99% have the same bits and all are within 3 units in the last place. " + drawNotes}
}
