package train

import (
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// AdafactorOptions are the hyperparameters of Adafactor. Zero fields take the defaults given.
type AdafactorOptions struct {
	// Power sets the weight of a gradient in the mean of squares, step^Power: -0.8.
	Power float64
	// Eps1 is the lower bound of the denominator, the root of a gradient's mean square: 2^-23. Eps2 is the lower bound
	// of a parameter's root mean square: 1e-3.
	Eps1, Eps2 float64
	Clip       float64 // maximum root mean square of an update: 1
	Decay      float64
	DecayOn    Select // nil selects Matrices
}

// Adafactor divides gradients by the root of a running mean of their squares. For matrices and stacks of matrices
// it stores only the means of rows and of columns. The step is relative to the size of the parameter: its root mean
// square times the learning rate, which is bounded by 1/√step. Adafactor comes last in a Chain. Source: Shazeer and
// Stern, "Adafactor: adaptive learning rates with sublinear memory cost" (2018), following PyTorch.
func Adafactor(o AdafactorOptions) Transform {
	o.Power, o.Eps1, o.Eps2, o.Clip = or(o.Power, -0.8), or(o.Eps1, 0x1p-23), or(o.Eps2, 1e-3), or(o.Clip, 1)
	return func(s *Step, us []*Update) {
		n := primitives.ConvertElementType(s.Number, graph.F64)
		weight := primitives.ConvertElementType(primitives.Pow(n, primitives.FullLike(n, o.Power)), graph.F32)
		rate := primitives.Min(s.Rate, primitives.ConvertElementType(primitives.Rsqrt(n), graph.F32))
		decays := s.decays(o.DecayOn)
		for _, u := range us {
			g, p := u.Take(), u.f32()
			shape := g.Type.Shape
			square := o.meanSquare(s, u, primitives.Square(g), weight)
			d := primitives.Mul(primitives.Rsqrt(primitives.Max(square, primitives.FullLike(square, o.Eps1*o.Eps1))), g)
			clip := primitives.Max(primitives.FullLike(rate, 1), primitives.MulScalar(rms(d), 1/o.Clip))
			size := primitives.Max(primitives.FullLike(rate, o.Eps2), rms(p))
			d = primitives.Mul(d, primitives.BroadcastTo(primitives.Div(primitives.Mul(size, rate), clip), shape...))
			if o.Decay != 0 && decays(u.Param) {
				keep := primitives.Sub(primitives.FullLike(s.Rate, 1), primitives.MulScalar(s.Rate, o.Decay))
				p = primitives.Mul(p, primitives.BroadcastTo(keep, shape...))
			}
			u.Delta, u.next = d, s.round(u, primitives.Sub(p, d))
		}
	}
}

// meanSquare returns the estimated mean square of the gradient's elements.
func (o AdafactorOptions) meanSquare(s *Step, u *Update, square, weight *graph.Value) *graph.Value {
	shape, place := square.Type.Shape, u.Param.Place
	rank := len(shape)
	mean := func(kind string, x *graph.Value, place []string) *graph.Value {
		// Zero shards dimension 0, the rows of a matrix; the statistics of columns are not sharded with it.
		place = s.split(place, len(x.Type.Shape), s.config.Zero != ZeroOff && (rank != 2 || kind != "columns"))
		old := s.stateOf(u, kind, graph.F32, place, x.Type.Shape...)
		x = primitives.Add(old, primitives.Mul(primitives.Sub(x, old), primitives.BroadcastTo(weight, x.Type.Shape...)))
		s.Keep(u, kind, x)
		return x
	}
	if rank < 2 {
		return mean("v", square, place)
	}
	at := func(d int) string {
		if d < len(place) {
			return place[d]
		}
		return ""
	}
	var outer []string // axes of the dimensions preceding the matrix
	var batch, noRow, noColumn []int
	for d := range rank - 2 {
		outer, batch = append(outer, at(d)), append(batch, d)
	}
	noColumn = append(append(noColumn, batch...), rank-2)
	noRow = append(append(noRow, batch...), rank-1)
	rows := mean("rows", primitives.MulScalar(primitives.ReduceSum(square, rank-1), 1/float64(shape[rank-1])), append(outer[:len(outer):len(outer)], at(rank-2)))
	columns := mean("columns", primitives.MulScalar(primitives.ReduceSum(square, rank-2), 1/float64(shape[rank-2])), append(outer[:len(outer):len(outer)], at(rank-1)))
	all := primitives.MulScalar(primitives.ReduceSum(rows, rank-2), 1/float64(shape[rank-2]))
	all = primitives.Max(all, primitives.FullLike(all, o.Eps1))
	rows = primitives.Div(rows, primitives.BroadcastInDim(all, rows.Type.Shape, batch...))
	return primitives.Mul(primitives.BroadcastInDim(rows, shape, noColumn...), primitives.BroadcastInDim(columns, shape, noRow...))
}

// rms returns the root mean square of all elements, f32[].
func rms(x *graph.Value) *graph.Value {
	return primitives.MulScalar(primitives.Sqrt(primitives.ReduceSum(squaresByIndex(x))), 1/math.Sqrt(float64(max(1, x.Type.Len()))))
}
