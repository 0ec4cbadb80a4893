package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
)

// scaledBlock is the number of rows and of columns of a block of weights that has one
// scale, as DeepSeek-V3's weights have (weight and weight_scale_inv).
const scaledBlock = 128

// ScaledBlocks returns the type of the scales of weights of type w, of which the last
// two dimensions are the matrix: f32, one for each block of 128×128, the last blocks
// being smaller.
func ScaledBlocks(w graph.Type) graph.Type {
	s := graph.Type{DType: graph.F32, Shape: append([]int(nil), w.Shape...)}
	for d := max(w.Rank()-2, 0); d < w.Rank(); d++ {
		s.Shape[d] = (w.Shape[d] + scaledBlock - 1) / scaledBlock
	}
	return s
}

// scaledWeights checks weights and their scales beside rows of element type d.
func scaledWeights(w, scales graph.Type, d graph.DType, rank int, shape string) error {
	if !w.DType.IsF8() || w.Rank() != rank {
		return fmt.Errorf("weights are %s, want f8_e4m3%s or f8_e5m2%s", w, shape, shape)
	}
	want := ScaledBlocks(w)
	if d == graph.F64 && scales.DType == graph.F64 {
		want.DType = graph.F64
	}
	if scales.DType.IsFloat() && scales.DType < graph.F32 {
		want.DType = scales.DType
	}
	if !scales.Equal(want) {
		return fmt.Errorf("scales are %s, want %s: one for each block of %d×%d weights", scales, want, scaledBlock, scaledBlock)
	}
	return nil
}

// scaledCotangents returns the cotangents of weights and of their scales. dense is the
// cotangent of the weights multiplied by the scales.
func scaledCotangents(w, scales, dense *graph.Value) (dw, ds *graph.Value) {
	t := dense.Type.DType
	lead, n, k := w.Type.Shape[:w.Rank()-2], w.Dim(-2), w.Dim(-1)
	nb, kb := scales.Dim(-2), scales.Dim(-1)
	shape := func(sizes ...int) []int { return append(append([]int(nil), lead...), sizes...) }
	// A scale for each element: repeated over the block, and cut to the matrix.
	dims := make([]int, 0, w.Rank())
	for d := range lead {
		dims = append(dims, d)
	}
	dims = append(dims, len(lead), len(lead)+2)
	wide := BroadcastInDim(ConvertElementType(scales, t), shape(nb, scaledBlock, kb, scaledBlock), dims...)
	whole := Reshape(wide, shape(nb*scaledBlock, kb*scaledBlock)...)
	each := Slice(whole, make([]int, w.Rank()), w.Type.Shape)
	dw = ConvertElementType(Mul(dense, each), w.Type.DType.Cotangent())
	// The sum over each block of cotangents times weights.
	low, high := make([]int, w.Rank()), make([]int, w.Rank())
	high[len(lead)], high[len(lead)+1] = nb*scaledBlock-n, kb*scaledBlock-k
	product := Mul(dense, ConvertElementType(w, t))
	parts := Reshape(Pad(product, zeroOf(product), low, high), shape(nb, scaledBlock, kb, scaledBlock)...)
	sums := ReduceSumUnordered(parts, len(lead)+1, len(lead)+3)
	return dw, ConvertElementType(sums, scales.Type.DType)
}
