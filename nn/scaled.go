package nn

import (
	"github.com/gomoe/gomoe/graph"
	pr "github.com/gomoe/gomoe/primitives"
)

// Matrices whose elements are 8-bit floats have a scale for each block of 128×128, in the parameter whose name
// is the matrix's with this behind it.
const scaleSuffix = "_scale_inv"

// scales declares the scales of a matrix of 8-bit floats.
func (s *Scope) scales(name string, place []string, w *graph.Value) *graph.Value {
	return s.param(name+scaleSuffix, "", Init{Mean: 1}, place, pr.ScaledBlocks(w.Type))
}

// numbers declares the parameter weight, a matrix, and returns it in element type d.
func (s *Scope) numbers(init Init, place []string, d graph.DType, shape ...int) *graph.Value {
	w := s.Param("weight", "weight", init, place, shape...)
	if !w.Type.DType.IsF8() {
		return pr.ConvertElementType(w, d)
	}
	scales := s.scales("weight", nil, w)
	rows, columns := scales.Dim(0), scales.Dim(1)
	each := pr.BroadcastInDim(scales, []int{rows, 128, columns, 128}, 0, 2)
	each = pr.Slice(pr.Reshape(each, rows*128, columns*128), []int{0, 0}, shape)
	return pr.ConvertElementType(pr.Mul(pr.ConvertElementType(w, graph.F32), each), d)
}
