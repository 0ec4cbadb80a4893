package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// sumPairsTo computes n sums of type `to`. If that is not the type of the rows, which
// PrepareOp.Wire asks for, they are added in f32, or in f64 if one of the types is f64, and
// rounded once.
func sumPairsTo(a *exec.Args, n int, s rowSums, to graph.DType) {
	grain := 1 + cheap/(1+s.k*s.n)
	switch {
	case to == s.d:
		sumPairs(a, n, s)
	case to == graph.F64 || s.d == graph.F64:
		exec.Share(a, n, grain, convertedSums[float64]{s, to, exec.RoomsOf[float64](a, 2*s.n)})
	default:
		exec.Share(a, n, grain, convertedSums[float32]{s, to, exec.RoomsOf[float32](a, 2*s.n)})
	}
}

// convertedSums are rowSums of type `to`, which are added as T.
type convertedSums[T float] struct {
	rowSums
	to    graph.DType
	rooms *exec.Rooms[T]
}

func (s *convertedSums[T]) Piece(lo, hi int) {
	room := s.rooms.Take()
	acc, wide := room[:s.n], room[s.n:]
	for i := lo; i < hi; i++ {
		clear(acc)
		for pair := i * s.k; pair < (i+1)*s.k; pair++ {
			x, w := s.row(s.Args, pair)
			if x != nil {
				widenRow(wide, x, s.d)
				vector.Add(acc, acc, wide)
			}
			s.put(s.Args, pair, w)
		}
		narrowRow(s.rowSums.to(s.Args, i), acc, s.to)
	}
}

// widenRow sets dst to the elements of src, which are of float type d.
func widenRow[T float](dst []T, src []byte, d graph.DType) {
	switch d {
	case graph.F64:
		for i, x := range view[float64](src) {
			dst[i] = T(x)
		}
	case graph.F32:
		for i, x := range view[float32](src) {
			dst[i] = T(x)
		}
	case graph.BF16:
		for i, x := range view[array.Brain](src) {
			dst[i] = T(x.Float32())
		}
	case graph.F16:
		for i, x := range view[array.Half](src) {
			dst[i] = T(x.Float32())
		}
	}
}

// narrowRow writes src to dst as elements of float type d, each rounded once.
func narrowRow[T float](dst []byte, src []T, d graph.DType) {
	switch d {
	case graph.F64:
		for i, x := range src {
			view[float64](dst)[i] = float64(x)
		}
	case graph.F32:
		for i, x := range src {
			view[float32](dst)[i] = float32(x)
		}
	case graph.BF16:
		for i, x := range src {
			view[array.Brain](dst)[i] = array.BrainOf64(float64(x))
		}
	case graph.F16:
		for i, x := range src {
			view[array.Half](dst)[i] = array.HalfOf64(float64(x))
		}
	}
}
