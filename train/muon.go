package train

import (
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// MuonOptions are the hyperparameters of Muon. Zero fields take the defaults given.
type MuonOptions struct {
	Momentum float64 // 0.95
	Plain    bool    // disables Nesterov momentum
	Rounds   int     // iterations of the orthogonalisation: 5
	Decay    float64
	// LikeAdam scales updates to the root mean square of AdamW's updates, so that learning rates tuned for AdamW
	// apply. Otherwise matrices with more rows than columns get larger updates.
	LikeAdam bool
	Moments  graph.DType // F32 (the default) or BF16
}

// Muon orthogonalises the momentum of matrices approximately, so that all directions change by the same amount.
// Parameters with three dimensions are stacks of matrices; other ranks are an error. Apply it with On(Matrices, …),
// excluding embeddings and heads, and AdamW to the others. It comes last in a Chain. Matrices sharded by a mesh
// axis are gathered first. Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks" (2024),
// following PyTorch.
func Muon(o MuonOptions) Transform {
	o.Momentum, o.Rounds, o.Moments = or(o.Momentum, 0.95), or(o.Rounds, 5), or(o.Moments, graph.F32)
	return Chain(func(s *Step, us []*Update) {
		for _, u := range us {
			shape := u.Param.Type.Shape
			rank := len(shape)
			if rank != 2 && rank != 3 {
				graph.Fail("muon: %s is %s, want a matrix or a stack of matrices; apply it On(Matrices, …)", u.Param.Name, u.Param.Type)
			}
			g := u.Take()
			m := blend(s.State(u, "muon", o.Moments), g, o.Momentum)
			s.Keep(u, "muon", m)
			if !o.Plain {
				m = primitives.Add(primitives.MulScalar(g, 1-o.Momentum), primitives.MulScalar(m, o.Momentum))
			}
			place := make([]string, rank) // every rank needs whole matrices, and only its own ones of a stack
			if copy(place, u.Param.Place); rank == 3 {
				clear(place[1:])
			} else {
				clear(place)
			}
			m = primitives.ShardingConstraint(m, place...)
			rows, columns := float64(shape[rank-2]), float64(shape[rank-1])
			size := math.Sqrt(max(1, rows/columns))
			if o.LikeAdam {
				size = 0.2 * math.Sqrt(max(rows, columns))
			}
			u.Delta = primitives.MulScalar(orthogonal(m, o.Rounds), size)
		}
	}, Decay(o.Decay, All), ScaleByRate)
}

// orthogonal returns a matrix, or a stack of matrices, with singular values near 1. It divides x by its norm and
// iterates x = a x + (b y + c y²) x with y = x xᵀ.
func orthogonal(x *graph.Value, rounds int) *graph.Value {
	const a, b, c = 3.4445, -4.7750, 2.0315
	rank := x.Rank()
	rows, columns := rank-2, rank-1
	var batch, last []int
	if rank == 3 {
		batch = []int{0}
	}
	turned := x.Dim(rows) > x.Dim(columns)
	turn := func(x *graph.Value) *graph.Value {
		return primitives.Transpose(x, append(append(last, batch...), columns, rows)...)
	}
	if turned {
		x = turn(x)
	}
	norm := primitives.Sqrt(primitives.ReduceSum(primitives.Square(x), rows, columns))
	norm = primitives.Max(norm, primitives.FullLike(norm, 1e-7))
	x = primitives.Div(x, primitives.BroadcastInDim(norm, x.Type.Shape, batch...))
	for range rounds {
		y := primitives.DotGeneral(x, x, []int{columns}, []int{columns}, batch, batch)
		z := primitives.DotGeneral(y, y, []int{columns}, []int{rows}, batch, batch)
		z = primitives.Add(primitives.MulScalar(y, b), primitives.MulScalar(z, c))
		x = primitives.Add(primitives.MulScalar(x, a), primitives.DotGeneral(z, x, []int{columns}, []int{rows}, batch, batch))
	}
	if turned {
		x = turn(x)
	}
	return x
}
