package nn

import (
	"github.com/gomoe/gomoe/graph"
	pr "github.com/gomoe/gomoe/primitives"
)

// RMSNorm divides by the root of the mean of squares of the last dimension, and multiplies by the
// parameter weight, which has its size.
type RMSNorm struct{ Epsilon float64 }

// Apply returns x[..,n] normalised.
func (r RMSNorm) Apply(s *Scope, x *graph.Value) *graph.Value {
	graph.Helper()
	gain := s.Param("weight", "weight", Init{Mean: 1}, nil, x.Dim(-1))
	return pr.RMSNorm(x, pr.ConvertElementType(gain, x.Type.DType), r.Epsilon)
}
