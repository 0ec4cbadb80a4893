package train

import (
	"github.com/gomoe/gomoe/graph"
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
	o.Moments = or(o.Moments, graph.F32)
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
	o.B1, o.B2, o.Moments = or(o.B1, 0.9), or(o.B2, 0.99), or(o.Moments, graph.F32)
	return Chain(func(s *Step, us []*Update) {
		for _, u := range us {
			g, m := u.Take(), s.State(u, "lion", o.Moments)
			u.Delta = primitives.Sign(blend(m, g, o.B1))
			s.Keep(u, "lion", blend(m, g, o.B2))
		}
	}, Decay(o.Decay, o.DecayOn), ScaleByRate)
}
