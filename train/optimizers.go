package train

import (
	"cmp"
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// SGDOptions are the hyperparameters of SGD.
type SGDOptions struct {
	Momentum float64 // 0 keeps no state
	Nesterov bool
	Decay    float64
	DecayOn  Select      // nil selects Matrices
	Moments  graph.DType // F32 (the default) or BF16
}

// SGD subtracts the learning rate times the momentum, the sum of past gradients decayed by Momentum in every step.
// Weight decay is added to the gradient, as in PyTorch.
func SGD(o SGDOptions) Transform {
	o.Moments = cmp.Or(o.Moments, graph.F32)
	return Chain(Decay(o.Decay, o.DecayOn), func(s *Step, us []*Update) {
		if o.Momentum == 0 {
			return
		}
		for _, u := range us {
			g := u.Take()
			m := primitives.Add(primitives.MulScalar(primitives.ConvertElementType(s.State(u, "momentum", o.Moments), graph.F32), o.Momentum), g)
			s.Keep(u, "momentum", m)
			if u.Delta = m; o.Nesterov {
				u.Delta = primitives.Add(g, primitives.MulScalar(m, o.Momentum))
			}
		}
	}, ScaleByRate)
}

// LionOptions are the hyperparameters of Lion. Zero fields take the defaults given.
type LionOptions struct {
	B1, B2  float64 // 0.9, 0.99
	Decay   float64
	DecayOn Select      // nil selects Matrices
	Moments graph.DType // F32 (the default) or BF16
}

// Lion moves every element of a parameter by the learning rate, in the direction of B1 m + (1-B1) g, and then sets
// m = B2 m + (1-B2) g. Source: Chen et al., "Symbolic discovery of optimization algorithms" (2023).
func Lion(o LionOptions) Transform {
	o.B1, o.B2, o.Moments = cmp.Or(o.B1, 0.9), cmp.Or(o.B2, 0.99), cmp.Or(o.Moments, graph.F32)
	return Chain(func(s *Step, us []*Update) {
		for _, u := range us {
			g, m := u.Take(), s.State(u, "lion", o.Moments)
			u.Delta = primitives.Sign(blend(m, g, o.B1))
			s.Keep(u, "lion", blend(m, g, o.B2))
		}
	}, Decay(o.Decay, o.DecayOn), ScaleByRate)
}

// AdamWOptions are the hyperparameters of AdamW. Zero fields take the defaults given.
type AdamWOptions struct {
	B1, B2, Eps float64 // 0.9, 0.95, 1e-8
	// Decay is the weight decay, applied to the parameters selected by DecayOn; nil selects Matrices.
	Decay   float64
	DecayOn Select
	// Moments is the element type for storing the moments: F32, or BF16 to halve their memory.
	Moments graph.DType
}

// AdamW updates parameters by the moments of their gradients. It comes last in a Chain.
//
//	m = B1 m + (1-B1) g,   v = B2 v + (1-B2) g²
//	p = p - rate (m/(1-B1ˢᵗᵉᵖ) / (√(v/(1-B2ˢᵗᵉᵖ)) + Eps) + Decay p)
//
// Source: Loshchilov and Hutter, "Decoupled weight decay regularization" (2019).
func AdamW(o AdamWOptions) Transform {
	o.B1, o.B2, o.Eps, o.Moments = cmp.Or(o.B1, 0.9), cmp.Or(o.B2, 0.95), cmp.Or(o.Eps, 1e-8), cmp.Or(o.Moments, graph.F32)
	return func(s *Step, us []*Update) {
		decays := s.decays(o.DecayOn)
		for _, u := range us {
			decay := 0.0
			if decays(u.Param) {
				decay = o.Decay
			}
			fused(s, u, o.Moments, primitives.AdamWOp{B1: o.B1, B2: o.B2, Eps: o.Eps, WeightDecay: decay})
		}
	}
}

// decays applies the selector which, or Matrices if it is nil, to the model's parameters.
func (s *Step) decays(which Select) func(nn.Param) bool {
	if which == nil {
		which = Matrices
	}
	return which(s.all)
}

// fused performs the whole update in one pass, storing the moments in the given element type.
func fused(s *Step, u *Update, moments graph.DType, op primitives.AdamWOp) {
	if u.next != nil {
		u.Take() // always fails here
	}
	scale := u.scale
	if scale == nil {
		scale = primitives.FullLike(s.Rate, 1)
	}
	wide := func(x *graph.Value) *graph.Value { return primitives.ConvertElementType(x, graph.F32) }
	m, v := s.State(u, "m", moments), s.State(u, "v", moments)
	next, nm, nv := primitives.AdamW(u.f32(), wide(m), wide(v), wide(u.Delta), s.Rate, s.Number, scale, op)
	u.next = s.round(u, next)
	s.Keep(u, "m", nm)
	s.Keep(u, "v", nv)
}

// ScaleByAdam divides the running mean of updates by the root of the running mean of their squares.
func ScaleByAdam(b1, b2, eps float64, moments graph.DType) Transform {
	return func(s *Step, us []*Update) {
		for _, u := range us {
			g := u.Take()
			m := blend(s.State(u, "m", moments), g, b1)
			v := blend(s.State(u, "v", moments), primitives.Square(g), b2)
			s.Keep(u, "m", m)
			s.Keep(u, "v", v)
			c1, c2 := s.missing(b1), s.missing(b2)
			root := primitives.Sqrt(primitives.Div(v, primitives.BroadcastTo(c2, g.Type.Shape...)))
			u.Delta = primitives.Div(primitives.Div(m, primitives.BroadcastTo(c1, g.Type.Shape...)), primitives.AddScalar(root, eps))
		}
	}
}

// blend returns b·old + (1-b)·x as f32.
func blend(old, x *graph.Value, b float64) *graph.Value {
	return primitives.Add(primitives.MulScalar(primitives.ConvertElementType(old, graph.F32), b), primitives.MulScalar(x, 1-b))
}

// missing returns 1 - bˢᵗᵉᵖ as f32[]. It computes in f64, because f32 loses most digits for b near 1 in the first
// steps.
func (s *Step) missing(b float64) *graph.Value {
	if b == 0 {
		return primitives.FullLike(s.Rate, 1)
	}
	n := primitives.ConvertElementType(s.Number, graph.F64)
	return primitives.ConvertElementType(primitives.Neg(primitives.Expm1(primitives.MulScalar(n, math.Log(b)))), graph.F32)
}

// Decay adds decay times the parameter to the updates of the selected parameters; nil selects Matrices.
func Decay(decay float64, which Select) Transform {
	return func(s *Step, us []*Update) {
		decays := s.decays(which)
		for _, u := range us {
			if decay != 0 && decays(u.Param) {
				u.Delta = primitives.Add(u.Take(), primitives.MulScalar(u.f32(), decay))
			}
		}
	}
}

// ScaleByRate multiplies updates by the learning rate. A chain of transformations ends with it, unless it ends with
// an optimiser.
func ScaleByRate(s *Step, us []*Update) {
	for _, u := range us {
		u.Scale(s.Rate)
		u.rated = true
	}
}

// average updates the moving average of a parameter. The average starts from the parameter's initial value.
func (s *Step) average(u *Update) {
	old := s.State(u, "average", graph.F32)
	u.state[len(u.state)-1].copy = true
	s.Keep(u, "average", blend(old, primitives.ConvertElementType(u.next, graph.F32), s.config.Average))
}

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
	o.Power, o.Eps1, o.Eps2, o.Clip = cmp.Or(o.Power, -0.8), cmp.Or(o.Eps1, 0x1p-23), cmp.Or(o.Eps2, 1e-3), cmp.Or(o.Clip, 1)
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
	o.Momentum, o.Rounds, o.Moments = cmp.Or(o.Momentum, 0.95), cmp.Or(o.Rounds, 5), cmp.Or(o.Moments, graph.F32)
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

// Schedule returns the learning rate of a step, counting from 1. A resumed run passes the number of its step.
type Schedule func(step int) float64

// Constant returns a constant learning rate.
func Constant(rate float64) Schedule { return func(int) float64 { return rate } }

// warmup rises linearly to peak over the given number of steps. From then on, the rate is peak times after(done),
// where done is the completed fraction of the remaining steps up to total, from 0 to 1.
func warmup(peak float64, steps, total int, after func(done float64) float64) Schedule {
	return func(step int) float64 {
		if step <= steps && steps > 0 {
			return peak * float64(step) / float64(steps)
		}
		return peak * after(min(1, float64(step-steps)/float64(max(total-steps, 1))))
	}
}

// Cosine rises linearly to peak in warm steps, then decays along a cosine to peak times floor at step total, and
// stays there.
func Cosine(peak float64, warm, total int, floor float64) Schedule {
	return warmup(peak, warm, total, func(done float64) float64 {
		return floor + float64((1-floor)*0.5*(1+math.Cos(math.Pi*done)))
	})
}

// Linear rises linearly to peak in warm steps, then decays linearly to peak times floor at step total, and stays
// there.
func Linear(peak float64, warm, total int, floor float64) Schedule {
	return warmup(peak, warm, total, func(done float64) float64 { return 1 - float64((1-floor)*done) })
}

// WSD (warmup, stable, decay) rises linearly to peak in warm steps and stays there. In the last decay steps it
// falls linearly, reaching peak times floor at step total.
func WSD(peak float64, warm, decay, total int, floor float64) Schedule {
	falls := Linear(peak, total-decay, total, floor)
	return func(step int) float64 {
		switch {
		case step <= warm && warm > 0:
			return peak * float64(step) / float64(warm)
		case step <= total-decay:
			return peak
		}
		return falls(step)
	}
}
