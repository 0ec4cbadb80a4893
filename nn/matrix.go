package nn

import (
	"slices"
	"strings"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// Form is the stored form of a parameter.
type Form struct {
	DType graph.DType
	// Affine is non-zero for a matrix in MLX's affine quantisation; DType is then U32, the type of the packed words.
	Affine Affine
}

// Affine is MLX's affine quantisation. Each group of GroupSize numbers in a row is stored as integers of Bits bits,
// packed into 32-bit words from the lowest bits up, with one scale and one bias per group. A number equals its
// integer times the scale, plus the bias. The scales and biases of the parameter weight are parameters named scales
// and biases in the same scope.
type Affine struct{ Bits, GroupSize int }

// matrix is a matrix, or a stack of experts' matrices, in its stored form: plain numbers or blocks, 8-bit floats
// with scales, or MLX's packed words with scales and biases.
type matrix struct {
	w, scales, biases *graph.Value
	affine            Affine
}

// scaleSuffix follows a matrix's name in the name of its scales. Matrices of 8-bit floats have one scale for each
// block of 128×128.
const scaleSuffix = "_scale_inv"

// matrix declares a parameter which is a matrix [..,out,in]. Both names end with weight.
func (s *Scope) matrix(name, gguf string, init Init, place []string, shape ...int) matrix {
	graph.Helper()
	m := matrix{w: s.param(name, gguf, init, place, graph.T(s.opts.DType, shape...)), affine: s.affine(name)}
	beside := func(name, gguf string, init Init, t graph.Type) *graph.Value {
		v := s.param(name, gguf, init, experts(place), t)
		s.params[s.index[s.name+name]].Scales = true
		return v
	}
	if q := m.affine; q != (Affine{}) {
		_, t, err := primitives.AffineWeights(graph.T(s.opts.DType, shape...), q.Bits, q.GroupSize)
		if err != nil {
			graph.Fail("parameter %s: %w", s.name+name, err)
		}
		base, other := strings.TrimSuffix(name, "weight"), strings.TrimSuffix(gguf, "weight")
		m.scales, m.biases = beside(base+"scales", other+"scales", Init{Mean: 1}, t), beside(base+"biases", other+"biases", Init{}, t)
	} else if m.w.Type.DType.IsF8() {
		m.scales = beside(name+scaleSuffix, "", Init{Mean: 1}, primitives.ScaledBlocks(m.w.Type))
	}
	return m
}

// affine returns the affine quantisation of a declared parameter, or the zero Affine if it has none.
func (s *Scope) affine(name string) Affine { return s.params[s.index[s.name+name]].Affine }

// product returns x[..,in] times the transposed matrix, [..,out], with element type d.
func (m matrix) product(x *graph.Value, d graph.DType) *graph.Value {
	graph.Helper()
	switch {
	case m.biases != nil:
		return primitives.ConvertElementType(primitives.AffineMatMul(x, m.w, m.scales, m.biases, m.affine.Bits, m.affine.GroupSize), d)
	case m.scales != nil:
		return primitives.ConvertElementType(primitives.ScaledMatMul(x, m.w, m.scales), d)
	}
	return primitives.MatMulTransposedAs(d, x, m.w)
}

// perRow multiplies each row of x[S,in] by its expert's transposed matrix, giving [S,out].
func (m matrix) perRow(r primitives.Prepared, x *graph.Value) *graph.Value {
	graph.Helper()
	switch {
	case m.biases != nil:
		return primitives.GroupedAffineMatMul(r, x, m.w, m.scales, m.biases, m.affine.Bits, m.affine.GroupSize)
	case m.scales != nil:
		return primitives.GroupedScaledMatMul(r, x, m.w, m.scales)
	case m.w.Type.DType.IsBlock(): // the product reads blocks directly
		return primitives.GroupedMatMulTransposed(r, x, m.w)
	}
	return primitives.GroupedMatMulTransposed(r, x, primitives.ConvertElementType(m.w, x.Type.DType))
}

// rows looks up the rows ids i32[..], returning [..,in] with element type d.
func (m matrix) rows(ids *graph.Value, d graph.DType) *graph.Value {
	graph.Helper()
	if m.biases == nil {
		return primitives.ConvertElementType(primitives.Embedding(m.w, ids), d)
	}
	return matrix{primitives.Gather(m.w, ids, 0), primitives.Gather(m.scales, ids, 0), primitives.Gather(m.biases, ids, 0), m.affine}.numbers(d)
}

// numbers dequantises the matrix to element type d.
func (m matrix) numbers(d graph.DType) *graph.Value {
	graph.Helper()
	switch {
	case m.biases != nil:
		return primitives.ConvertElementType(m.affine.numbers(m.w, m.scales, m.biases), d)
	case m.scales == nil:
		return primitives.ConvertElementType(m.w, d)
	}
	const block = 128
	rows, columns := m.scales.Dim(0), m.scales.Dim(1)
	each := primitives.BroadcastInDim(m.scales, []int{rows, block, columns, block}, 0, 2)
	each = primitives.Slice(primitives.Reshape(each, rows*block, columns*block), []int{0, 0}, m.w.Type.Shape)
	return primitives.ConvertElementType(primitives.Mul(primitives.ConvertElementType(m.w, graph.F32), each), d)
}

// numbers dequantises words u32[..,n·Bits/32] with scales and biases f[..,n/GroupSize] to f32[..,n]. It rounds
// after the multiplication and again after the addition.
func (q Affine) numbers(words, scales, biases *graph.Value) *graph.Value {
	shape, last := words.Type.Shape, words.Rank()
	parts := make([]*graph.Value, 32/q.Bits) // the integers in the lowest bits, in the next bits, and so on
	for i := range parts {
		low := primitives.And(primitives.Div(words, primitives.FullLike(words, float64(uint32(1)<<(i*q.Bits)))), primitives.FullLike(words, float64(uint32(1)<<q.Bits-1)))
		parts[i] = primitives.Reshape(primitives.ConvertElementType(low, graph.F32), slices.Concat(shape, []int{1})...)
	}
	x := primitives.Reshape(primitives.Concatenate(last, parts...), slices.Concat(scales.Type.Shape, []int{q.GroupSize})...)
	dims := make([]int, last)
	for d := range dims {
		dims[d] = d
	}
	each := func(v *graph.Value) *graph.Value {
		return primitives.BroadcastInDim(primitives.ConvertElementType(v, graph.F32), x.Type.Shape, dims...)
	}
	x = primitives.Add(primitives.Mul(x, each(scales)), each(biases))
	return primitives.Reshape(x, slices.Concat(shape[:last-1], []int{shape[last-1] * len(parts)})...)
}
