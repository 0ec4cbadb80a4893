package array

import (
	"math"

	"github.com/gomoe/gomoe/graph"
)

// Fill sets every element to x, converted to the element type; see Convert.
func (a Array) Fill(x float64) {
	if math.Float64bits(x) == 0 {
		clear(a.mem) // zero bits are zero in every element type
		return
	}
	if a.Type.DType.IsBlock() {
		wide := New(a.Type.With(graph.F32))
		wide.Fill(x)
		if err := Convert(a, wide); err != nil {
			panic(err) // cannot happen: New has accepted a's type
		}
		return
	}
	one := New(graph.Type{DType: a.Type.DType})
	if err := Convert(one, Scalar(x)); err != nil {
		panic(err) // cannot happen: both arrays have one element
	}
	size := len(one.mem)
	if len(a.mem) == 0 {
		return
	}
	copy(a.mem, one.mem)
	for n := size; n < len(a.mem); n *= 2 {
		copy(a.mem[n:], a.mem[:n])
	}
}
