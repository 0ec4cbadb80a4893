package nn

import (
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// Linear computes x·Wᵀ + b with the parameters weight [Out,in] and, if Bias is set, bias [Out].
type Linear struct {
	Out  int
	Bias bool
	// Split selects the dimension of the matrix sharded over the mesh axis tp: Columns shards the outputs, Rows the
	// summed dimension, and "" neither.
	Split Split
	// DType is the element type of the result; zero means the type of x.
	DType graph.DType
}

// Split is a dimension of a matrix to shard.
type Split string

const (
	Columns Split = "columns"
	Rows    Split = "rows"
)

// Apply returns x[..,in] · Wᵀ + b as [..,Out].
func (l Linear) Apply(s *Scope, x *graph.Value) *graph.Value {
	graph.Helper()
	in := x.Dim(-1)
	var place, bias []string
	switch l.Split {
	case Columns:
		place, bias = []string{"tp"}, []string{"tp"}
	case Rows:
		place = []string{"", "tp"}
	case "":
	default:
		graph.Fail("linear: split %q, want %q, %q or nothing", l.Split, Columns, Rows)
	}
	w := s.matrix("weight", "weight", Init{Std: 1 / math.Sqrt(float64(in))}, place, l.Out, in)
	d := l.DType
	if d == graph.NoDType {
		d = x.Type.DType
	}
	y := w.product(x, d)
	y = s.adapt(y, x, place)
	if l.Bias {
		b := primitives.ConvertElementType(s.Param("bias", "bias", Init{}, bias, l.Out), d)
		y = primitives.Add(y, primitives.BroadcastInDim(b, y.Type.Shape, y.Rank()-1))
	}
	return y
}
