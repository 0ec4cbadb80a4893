package train

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// roundingSeed seeds the random numbers for Config.Stochastic, independently of data and initial weights.
const roundingSeed = 0x726f756e64

// round converts the new value of a parameter, f32, to the parameter's element type.
func (s *Step) round(u *Update, x *graph.Value) *graph.Value {
	if !s.config.Stochastic || u.Value.Type.DType != graph.BF16 {
		return primitives.ConvertElementType(x, u.Value.Type.DType)
	}
	key := primitives.RandomFoldIn(primitives.RandomKey(s.Tracer, roundingSeed), s.Number)
	key = primitives.RandomFoldIn(key, primitives.Full(s.Tracer, float64(u.index), graph.U32))
	return primitives.StochasticRound(x, key)
}
