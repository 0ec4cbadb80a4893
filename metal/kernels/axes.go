package kernels

import "slices"

// axis is a dimension shared by operands. It has the dimension's stride in each operand, in
// elements; the stride is 0 in operands without the dimension.
type axis struct {
	size    int
	strides [3]int
}

// rowMajor returns the strides of an array of the shape.
func rowMajor(shape []int) []int {
	strides := make([]int, len(shape))
	n := 1
	for d := len(shape) - 1; d >= 0; d-- {
		strides[d] = n
		n *= shape[d]
	}
	return strides
}

// joined returns fewer axes describing the same elements in the same order. It drops axes of size
// 1, and merges neighbours that have a common stride in every operand.
func joined(axes []axis) []axis {
	var out []axis
	for _, a := range axes {
		if a.size == 1 {
			continue
		}
		if n := len(out); n > 0 && out[n-1].before(a) {
			out[n-1] = axis{out[n-1].size * a.size, a.strides}
			continue
		}
		out = append(out, a)
	}
	return out
}

// before reports whether one step along a is as long as all of b.
func (a axis) before(b axis) bool {
	for i, s := range a.strides {
		if s != b.size*b.strides[i] {
			return false
		}
	}
	return true
}

// longest removes the longest axis, the last of several, and returns it and the other axes. If
// there are no axes, it returns an axis of size 1.
func longest(axes []axis) (axis, []axis) {
	at := -1
	for i, a := range axes {
		if at < 0 || a.size >= axes[at].size {
			at = i
		}
	}
	if at < 0 {
		return axis{size: 1}, nil
	}
	return axes[at], slices.Delete(slices.Clone(axes), at, at+1)
}

// sizes returns n sizes of axes and their strides in each operand, as parameters. The last axis
// varies fastest; leading axes that are missing have size 1.
func sizes(axes []axis, n int) (size []any, strides [3][]any) {
	for i := range n {
		a := axis{size: 1}
		if at := i - (n - len(axes)); at >= 0 {
			a = axes[at]
		}
		size = append(size, a.size)
		for o := range strides {
			strides[o] = append(strides[o], a.strides[o])
		}
	}
	return size, strides
}

// product returns the product of the axes' sizes.
func product(axes []axis) int {
	n := 1
	for _, a := range axes {
		n *= a.size
	}
	return n
}
