package primitives

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/random"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// randomUniformOp draws floats that are uniform in [Lo, Hi).
type randomUniformOp struct {
	DType  graph.DType
	Shape  []int
	Lo, Hi float64
}

var _ flexible = randomUniformOp{}

// RandomUniform returns floats of the shape, uniform in [lo, hi):
// jax.random.uniform(key, shape, dtype, lo, hi), bit for bit. lo and hi are
// rounded to the element type first.
func RandomUniform(key *graph.Value, d graph.DType, lo, hi float64, shape ...int) *graph.Value {
	return graph.Apply1(randomUniformOp{d, slices.Clone(shape), lo, hi}, key)
}

func (randomUniformOp) Name() string { return "random_uniform" }

func (r randomUniformOp) Infer(in []graph.Type) ([]graph.Type, error) {
	out, err := inferDraw(in, graph.Type{DType: r.DType, Shape: r.Shape}, graph.DType.IsFloat, "f32, f64, bf16 or f16")
	if err != nil {
		return nil, err
	}
	lo, hi := rounded(r.DType, r.Lo), rounded(r.DType, r.Hi)
	if width := rounded(r.DType, hi-lo); !(width > 0) || math.IsInf(width, 0) || math.IsInf(lo, 0) {
		return nil, fmt.Errorf("lo %g and hi %g, want lo below hi, and hi-lo finite, in %s", r.Lo, r.Hi, r.DType)
	}
	return out, nil
}

// rounded returns x as the element type holds it.
func rounded(d graph.DType, x float64) float64 { return array.Scalar(x).As(d).Float64s()[0] }

func (randomUniformOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (randomUniformOp) Shard(*sharding.Context) (sharding.Decision, error) { return shardDraw() }

func (randomUniformOp) ShardAs(c *sharding.Context, out sharding.Spec) (sharding.Decision, error) {
	return shardDrawAs(c, out)
}

func (r randomUniformOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	lo, hi := array.Scalar(r.Lo).As(r.DType), array.Scalar(r.Hi).As(r.DType)
	switch r.DType {
	case graph.F64:
		return lowerUniform(e, out, in, lo, hi, random.Uniform[float64])
	case graph.F32:
		return lowerUniform(e, out, in, lo, hi, random.Uniform[float32])
	case graph.BF16:
		return lowerUniform(e, out, in, lo, hi, random.UniformBrain)
	default:
		return lowerUniform(e, out, in, lo, hi, random.UniformHalf)
	}
}

func lowerUniform[E array.Elem](e *lowering.Emitter, out, in []lowering.Buf, lo, hi array.Array, fill func(dst []E, key [2]uint32, offset uint64, lo, hi E)) error {
	return lowerDraw(e, ops.RandomUniform, out, in, func(dst []E, key [2]uint32, offset uint64) {
		fill(dst, key, offset, data[E](lo)[0], data[E](hi)[0])
	})
}

func (randomUniformOp) Doc() graph.Doc {
	return graph.Doc{Args: "key u32[2]", Results: "f[shape]", Formula: "y[i] uniform in [lo, hi)",
		Params: "dtype: a float type; shape: sizes; lo, hi: the bounds, lo below hi",
		Notes:  "23 random bits in f32, 52 in f64, 10 in f16, 7 in bf16. In f16 and bf16 the product and the sum are each rounded, as XLA does on processors without arithmetic of f16; on those with AVX512-FP16, XLA rounds f16 once, and about one element in ten has another last bit there. " + drawNotes}
}
