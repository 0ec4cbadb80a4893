package train

import (
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// AdamWOptions are the hyperparameters of AdamW. Zero fields take the defaults given.
type AdamWOptions struct {
	B1, B2, Eps float64 // 0.9, 0.95, 1e-8
	// Decay is the weight decay, applied to the parameters selected by DecayOn; nil selects Matrices.
	Decay   float64
	DecayOn Select
	// Moments is the element type for storing the moments: F32, or BF16 to halve their memory.
	Moments graph.DType
}

func or[T comparable](x, usual T) T {
	var none T
	if x == none {
		return usual
	}
	return x
}

// AdamW updates parameters by the moments of their gradients. It comes last in a Chain.
//
//	m = B1 m + (1-B1) g,   v = B2 v + (1-B2) g²
//	p = p - rate (m/(1-B1ˢᵗᵉᵖ) / (√(v/(1-B2ˢᵗᵉᵖ)) + Eps) + Decay p)
//
// Source: Loshchilov and Hutter, "Decoupled weight decay regularization" (2019).
func AdamW(o AdamWOptions) Transform {
	o.B1, o.B2, o.Eps, o.Moments = or(o.B1, 0.9), or(o.B2, 0.95), or(o.Eps, 1e-8), or(o.Moments, graph.F32)
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
	s.state[len(s.state)-1].copy = true
	s.Keep(u, "average", blend(old, primitives.ConvertElementType(u.next, graph.F32), s.config.Average))
}
