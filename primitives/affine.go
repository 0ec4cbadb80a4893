package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/graph"
)

// affine is the layout of weights that MLX quantises: numbers of Bits bits in words of 32,
// the first in the lowest bits, and for each GroupSize numbers of a row a scale and a bias.
type affine struct {
	// Bits is 4 or 8.
	Bits int
	// GroupSize is 32, 64 or 128.
	GroupSize int
}

// AffineWeights returns the types of the weights that w is quantised to, of which the last
// dimension is the row, and of their scales and of their biases. w has the element type of
// the scales.
func AffineWeights(w graph.Type, bits, groupSize int) (packed, scales graph.Type, err error) {
	a := affine{bits, groupSize}
	if err := a.check(); err != nil {
		return packed, scales, err
	}
	if w.Rank() == 0 || w.Shape[w.Rank()-1]%groupSize != 0 {
		return packed, scales, fmt.Errorf("weights are %s, want rows of a multiple of %d, the group size", w, groupSize)
	}
	packed, scales = graph.Type{DType: graph.U32, Shape: slices.Clone(w.Shape)}, graph.Type{DType: w.DType, Shape: slices.Clone(w.Shape)}
	last := w.Rank() - 1
	packed.Shape[last], scales.Shape[last] = w.Shape[last]*bits/32, w.Shape[last]/groupSize
	return packed, scales, nil
}

func (a affine) check() error {
	if a.Bits != 4 && a.Bits != 8 {
		return fmt.Errorf("bits is %d, want 4 or 8", a.Bits)
	}
	if a.GroupSize != 32 && a.GroupSize != 64 && a.GroupSize != 128 {
		return fmt.Errorf("group_size is %d, want 32, 64 or 128", a.GroupSize)
	}
	return nil
}

// columns returns how many numbers a row of w has.
func (a affine) columns(w graph.Type) int { return w.Shape[w.Rank()-1] * 32 / a.Bits }

// weights checks weights, scales and biases beside rows of element type d.
func (a affine) weights(w, scales, biases graph.Type, d graph.DType, rank int, shape string) error {
	if err := a.check(); err != nil {
		return err
	}
	if w.DType != graph.U32 || w.Rank() != rank {
		return fmt.Errorf("weights are %s, want u32%s, of %d numbers of %d bits each", w, shape, 32/a.Bits, a.Bits)
	}
	t := scales.DType
	if !t.IsFloat() || t == graph.F64 && d != graph.F64 {
		t = graph.F32
	}
	dense := w.With(t)
	dense.Shape = slices.Clone(w.Shape)
	dense.Shape[rank-1] = a.columns(w)
	_, want, err := AffineWeights(dense, a.Bits, a.GroupSize)
	switch {
	case err != nil:
		return err
	case !scales.Equal(want):
		return fmt.Errorf("scales are %s, want %s: one for each %d weights of a row", scales, want, a.GroupSize)
	case !biases.Equal(want):
		return fmt.Errorf("biases are %s, want %s as the scales", biases, want)
	}
	return nil
}

// cotangents returns the cotangents of scales and of biases. dense is the cotangent of the
// weights that they and w stand for.
func (a affine) cotangents(w, scales, biases, dense *graph.Value) (ds, db *graph.Value) {
	t := dense.Type.DType
	parts := make([]*graph.Value, 32/a.Bits) // the numbers in the lowest bits, in the next, and so on
	shape := append(slices.Clone(w.Type.Shape), 1)
	for i := range parts {
		low := And(Div(w, FullLike(w, float64(uint32(1)<<(i*a.Bits)))), FullLike(w, float64(uint32(1)<<a.Bits-1)))
		parts[i] = Reshape(ConvertElementType(low, t), shape...)
	}
	rank := w.Rank()
	grouped := append(slices.Clone(scales.Type.Shape), a.GroupSize)
	q, g := Reshape(Concatenate(rank, parts...), grouped...), Reshape(dense, grouped...)
	sum := func(x *graph.Value, like *graph.Value) *graph.Value {
		return ConvertElementType(ReduceSumUnordered(x, rank), like.Type.DType)
	}
	return sum(Mul(g, q), scales), sum(g, biases)
}
