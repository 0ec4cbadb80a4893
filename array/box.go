package array

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
)

// CopyBox copies a box of the given shape from src, starting at from, to dst, starting at
// to. A nil start is the beginning of the array.
func CopyBox(dst Array, to []int, src Array, from, shape []int) {
	a, size := dst.Type.Units()
	b, _ := src.Type.Units()
	x, y := dst.Bytes(), src.Bytes()
	_ = Runs(InUnits(shape, dst.Type), a, InUnits(to, dst.Type), b, InUnits(from, src.Type), func(i, j, n int) error {
		copy(x[i*size:(i+n)*size], y[j*size:])
		return nil
	})
}

// Runs calls f for every run of elements of a box that is contiguous in two arrays, in
// order, with the index of its first element in both and its length. The arrays have
// shapes a and b, and the box starts at aAt in one and at bAt in the other; nil is the
// beginning. It returns the first error of f.
func Runs(shape, a, aAt, b, bAt []int, f func(i, j, n int) error) error {
	if slices.Contains(shape, 0) {
		return nil
	}
	// Dimensions from `in` on make one run: all of them except the first are whole in both
	// arrays.
	in, n := len(shape), 1
	for in > 0 {
		in--
		n *= shape[in]
		if shape[in] != a[in] || shape[in] != b[in] {
			break
		}
	}
	index := make([]int, in)
	at := func(whole, start []int) int {
		i := 0
		for d := range shape {
			i *= whole[d]
			if d < in {
				i += index[d]
			}
			if start != nil {
				i += start[d]
			}
		}
		return i
	}
	for {
		if err := f(at(a, aAt), at(b, bAt), n); err != nil {
			return err
		}
		d := in - 1
		for ; d >= 0; d-- {
			if index[d]++; index[d] < shape[d] {
				break
			}
			index[d] = 0
		}
		if d < 0 {
			return nil
		}
	}
}

// InUnits returns start, which counts elements, in units of t.Units.
func InUnits(start []int, t graph.Type) []int {
	n, _ := t.DType.Block()
	if n == 1 || len(start) == 0 {
		return start
	}
	start = slices.Clone(start)
	start[len(start)-1] /= n
	return start
}
