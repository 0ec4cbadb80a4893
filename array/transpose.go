package array

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
)

// Transposed returns a copy of the array with its dimensions reversed: [out,in] for
// [in,out]. Like slicing, it panics if the element type is in blocks.
func (a Array) Transposed() Array {
	t := graph.T(a.Type.DType, reversed(a.Type.Shape)...)
	if t.DType.IsBlock() {
		panic("array: Transposed of " + a.Type.String() + ", want an element type that is not in blocks")
	}
	b, size, mem := New(t), a.Type.DType.Size(), a.Bytes()
	strides := make([]int, t.Rank()) // of b's dimensions in a, in elements
	n := 1
	for i, d := range t.Shape {
		strides[i] = n
		n *= d
	}
	index := make([]int, t.Rank())
	from := 0
	for to := range n {
		copy(b.mem[to*size:][:size], mem[from*size:])
		for i := len(index) - 1; i >= 0; i-- {
			index[i]++
			from += strides[i]
			if index[i] < t.Shape[i] {
				break
			}
			from -= index[i] * strides[i]
			index[i] = 0
		}
	}
	return b
}

func reversed(shape []int) []int {
	shape = slices.Clone(shape)
	slices.Reverse(shape)
	return shape
}
