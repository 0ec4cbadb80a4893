package train

import (
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	pr "github.com/gomoe/gomoe/primitives"
)

// AdamWOptions are the constants of AdamW. Those that are 0 have the values that are named.
type AdamWOptions struct {
	B1, B2, Eps float64 // 0.9, 0.95, 1e-8
	// Decay times the parameter is added to the step of the parameters that DecayOn selects, which are Matrices if it
	// is nil.
	Decay   float64
	DecayOn Select
	// Moments is the element type in which the moments are kept: F32, or BF16 with half of the memory.
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
			fused(s, u, o.Moments, pr.AdamWOp{B1: o.B1, B2: o.B2, Eps: o.Eps, WeightDecay: decay})
		}
	}
}

// decays returns whether a parameter is selected by which, or by Matrices if that is nil.
func (s *Step) decays(which Select) func(nn.Param) bool {
	if which == nil {
		which = Matrices
	}
	return which(s.all)
}

// fused updates in one pass, with the moments in an element type.
func fused(s *Step, u *Update, moments graph.DType, op pr.AdamWOp) {
	if u.next != nil {
		u.Take() // fails
	}
	scale := u.scale
	if scale == nil {
		scale = pr.FullLike(s.Rate, 1)
	}
	wide := func(x *graph.Value) *graph.Value { return pr.ConvertElementType(x, graph.F32) }
	m, v := s.State(u, "m", moments), s.State(u, "v", moments)
	next, nm, nv := pr.AdamW(u.f32(), wide(m), wide(v), wide(u.Delta), s.Rate, s.Number, scale, op)
	u.next = s.round(u, next)
	s.Keep(u, "m", nm)
	s.Keep(u, "v", nv)
}

// ScaleByAdam divides the mean of past updates by the root of the mean of their squares.
func ScaleByAdam(b1, b2, eps float64, moments graph.DType) Transform {
	return func(s *Step, us []*Update) {
		for _, u := range us {
			g := u.Take()
			m := blend(s.State(u, "m", moments), g, b1)
			v := blend(s.State(u, "v", moments), pr.Square(g), b2)
			s.Keep(u, "m", m)
			s.Keep(u, "v", v)
			c1, c2 := s.missing(b1), s.missing(b2)
			root := pr.Sqrt(pr.Div(v, pr.BroadcastTo(c2, g.Type.Shape...)))
			u.Delta = pr.Div(pr.Div(m, pr.BroadcastTo(c1, g.Type.Shape...)), pr.AddScalar(root, eps))
		}
	}
}

// blend returns b·old + (1-b)·x as f32.
func blend(old, x *graph.Value, b float64) *graph.Value {
	return pr.Add(pr.MulScalar(pr.ConvertElementType(old, graph.F32), b), pr.MulScalar(x, 1-b))
}

// missing returns 1 - bˢᵗᵉᵖ as f32[]. It is computed in f64: for b near 1 and the first steps, f32 has few of its digits.
func (s *Step) missing(b float64) *graph.Value {
	if b == 0 {
		return pr.FullLike(s.Rate, 1)
	}
	n := pr.ConvertElementType(s.Number, graph.F64)
	return pr.ConvertElementType(pr.Neg(pr.Expm1(pr.MulScalar(n, math.Log(b)))), graph.F32)
}

// Decay adds the parameter times decay to the updates of the parameters that are selected; nil selects Matrices.
func Decay(decay float64, which Select) Transform {
	return func(s *Step, us []*Update) {
		decays := s.decays(which)
		for _, u := range us {
			if decay != 0 && decays(u.Param) {
				u.Delta = pr.Add(u.Take(), pr.MulScalar(u.f32(), decay))
			}
		}
	}
}

// ScaleByRate multiplies updates with the learning rate. A chain of transformations ends with it, unless an optimiser is its last.
func ScaleByRate(s *Step, us []*Update) {
	for _, u := range us {
		u.Scale(s.Rate)
		u.rated = true
	}
}

// average keeps a moving average of the new parameter, which begins as the parameter does.
func (s *Step) average(u *Update) {
	old := s.State(u, "average", graph.F32)
	s.state[len(s.state)-1].copy = true
	s.Keep(u, "average", blend(old, pr.ConvertElementType(u.next, graph.F32), s.config.Average))
}
