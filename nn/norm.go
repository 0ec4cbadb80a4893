package nn

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// RMSNorm divides by the root mean square of the last dimension and multiplies by the parameter weight, a vector of
// that dimension's size.
type RMSNorm struct{ Epsilon float64 }

// Apply returns the normalised x[..,n].
func (r RMSNorm) Apply(s *Scope, x *graph.Value) *graph.Value {
	graph.Helper()
	gain := s.Param("weight", "weight", Init{Mean: 1}, nil, x.Dim(-1))
	return primitives.RMSNorm(x, primitives.ConvertElementType(gain, x.Type.DType), r.Epsilon)
}
