package train

import (
	"github.com/gomoe/gomoe/graph"
	pr "github.com/gomoe/gomoe/primitives"
)

// roundingSeed is the seed of the numbers by which Config.Stochastic rounds, apart from those of data and of first weights.
const roundingSeed = 0x726f756e64

// round returns the new value of a parameter, f32, in the parameter's element type.
func (s *Step) round(u *Update, x *graph.Value) *graph.Value {
	if !s.config.Stochastic || u.Value.Type.DType != graph.BF16 {
		return pr.ConvertElementType(x, u.Value.Type.DType)
	}
	key := pr.RandomFoldIn(pr.RandomKey(s.Tracer, roundingSeed), s.Number)
	key = pr.RandomFoldIn(key, pr.Full(s.Tracer, float64(u.index), graph.U32))
	return stochastic(x, pr.RandomUniform(key, graph.F32, 0, 1, x.Type.Shape...))
}

// stochastic returns x f32 as bf16: of the two numbers around x, each with the probability that makes x the mean, as the
// numbers u, uniform in [0,1), say. What is no normal number of bf16, or next to none, is rounded to the nearest.
func stochastic(x, u *graph.Value) *graph.Value {
	wide := func(v *graph.Value) *graph.Value { return pr.ConvertElementType(v, graph.F32) }
	near := wide(pr.ConvertElementType(x, graph.BF16))
	rest := pr.Sub(x, near)
	// The neighbour of near on the other side of x. Numbers of bf16 have 8 bits, and are apart by 2^-8 to 2^-7 of their
	// size, and by half of that below a power of two: 1.4·2^-8 of a number goes from 0.7 to 1.4 times the way to either
	// neighbour, of which it is then the nearest.
	step := pr.MulScalar(pr.Abs(near), 1.4/256)
	other := wide(pr.ConvertElementType(pr.Where(pr.Gt(rest, pr.ZerosLike(rest)), pr.Add(near, step), pr.Sub(near, step)), graph.BF16))
	far := pr.Lt(pr.Mul(u, pr.Abs(pr.Sub(other, near))), pr.Abs(rest)) // false where a side is not a number
	normal := pr.Gt(pr.Abs(near), pr.FullLike(near, 0x1p-118))
	return pr.ConvertElementType(pr.Where(pr.And(far, normal), other, near), graph.BF16)
}
