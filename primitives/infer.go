package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
)

// arity returns an error unless there are n arguments.
func arity(in []graph.Type, n int) error {
	if len(in) != n {
		return fmt.Errorf("%d arguments, want %d", len(in), n)
	}
	return nil
}

// alike returns an error if the types of the arguments differ.
func alike(in []graph.Type) error {
	for _, t := range in[1:] {
		if t.DType != in[0].DType {
			return fmt.Errorf("element types %s and %s differ; convert one with convert_element_type", in[0].DType, t.DType)
		}
		if !t.Equal(in[0]) {
			return fmt.Errorf("shapes of %s and %s differ; broadcast one with broadcast_in_dim", in[0], t)
		}
	}
	return nil
}

// floating returns an error unless the element type is a float type.
func floating(t graph.Type) error {
	if !t.DType.IsFloat() {
		return fmt.Errorf("element type %s, want f64, f32, bf16 or f16; convert with convert_element_type", t.DType)
	}
	return nil
}

// axisOf returns an error if t does not have the axis.
func axisOf(t graph.Type, axis int) error {
	if t.Rank() == 0 {
		return fmt.Errorf("axis %d of %s, which is a scalar and has none", axis, t)
	}
	if axis < 0 || axis >= t.Rank() {
		return fmt.Errorf("axis %d of %s, want 0 to %d", axis, t, t.Rank()-1)
	}
	return nil
}

// axesOf returns an error unless axes are distinct axes of t in ascending order.
func axesOf(t graph.Type, axes []int) error {
	for i, a := range axes {
		if err := axisOf(t, a); err != nil {
			return err
		}
		if i > 0 && axes[i-1] >= a {
			return fmt.Errorf("axes %v, want them distinct and ascending", axes)
		}
	}
	return nil
}

// atLeast returns an error if t has fewer than n dimensions.
func atLeast(t graph.Type, n int) error {
	if t.Rank() < n {
		return fmt.Errorf("%s has %d dimensions, want at least %d", t, t.Rank(), n)
	}
	return nil
}

// inferAlike returns the type of the result of an elementwise function. Its n arguments
// and its result have the same float type.
func inferAlike(in []graph.Type, n int) ([]graph.Type, error) {
	if err := arity(in, n); err != nil {
		return nil, err
	}
	if err := alike(in); err != nil {
		return nil, err
	}
	return in[:1], floating(in[0])
}
