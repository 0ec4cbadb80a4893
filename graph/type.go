package graph

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Type is the element type and the global shape of a value. A nil or empty Shape is a
// scalar's. Types are immutable: code writes only to a Shape that it has made itself.
type Type struct {
	DType DType
	Shape []int
}

// T returns the type with element type d and the given shape. It retains shape.
func T(d DType, shape ...int) Type { return Type{d, shape} }

// String prints the type as the text form does: f32[16,8], f32[] for a scalar.
func (t Type) String() string {
	var b strings.Builder
	b.WriteString(t.DType.String())
	b.WriteByte('[')
	for i, n := range t.Shape {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(n))
	}
	b.WriteByte(']')
	return b.String()
}

// Rank returns the number of dimensions.
func (t Type) Rank() int { return len(t.Shape) }

// Len returns the number of elements.
func (t Type) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Bytes returns the bytes that the elements take together.
func (t Type) Bytes() int64 {
	n, size := t.DType.Block()
	return int64(t.Len()/n) * int64(size)
}

// Units returns the shape of t counted in units, and the bytes of one unit. A unit is
// indivisible in memory: an element or, for types in blocks, a block along the last
// dimension. Code that copies parts of arrays copies units.
func (t Type) Units() (shape []int, bytes int) {
	n, bytes := t.DType.Block()
	if n == 1 || t.Rank() == 0 {
		return t.Shape, bytes
	}
	shape = slices.Clone(t.Shape)
	shape[len(shape)-1] /= n
	return shape, bytes
}

// Check returns an error if no value can have type t: there is no element type,
// a size is negative, the last dimension is not a whole number of blocks, or
// the number of bytes overflows an int64.
func (t Type) Check() error {
	if t.DType == NoDType || int(t.DType) >= len(dtypes) {
		return fmt.Errorf("%s has no element type", t)
	}
	for d, n := range t.Shape {
		if n < 0 {
			return fmt.Errorf("%s has size %d in dimension %d; sizes are 0 or more", t, n, d)
		}
	}
	if n, _ := t.DType.Block(); n > 1 && t.Rank() == 0 {
		return fmt.Errorf("%s is a scalar; blocks of %d elements need a last dimension", t, n)
	} else if n > 1 && t.Shape[t.Rank()-1]%n != 0 {
		return fmt.Errorf("%s has last dimension %d, want a multiple of %d, which are one block of %s", t, t.Shape[t.Rank()-1], n, t.DType)
	}
	if !t.Fits() {
		return fmt.Errorf("%s has more bytes than fit in 63 bits", t)
	}
	return nil
}

// Around returns the number of elements before, along and after a dimension: row-major,
// an array of t has the shape [outer,n,inner]. The axis must be one of t's.
func (t Type) Around(axis int) (outer, n, inner int) {
	outer, inner = 1, 1
	for d, s := range t.Shape {
		switch {
		case d < axis:
			outer *= s
		case d > axis:
			inner *= s
		}
	}
	return outer, t.Shape[axis], inner
}

// Equal reports whether both types have the same element type and shape.
func (t Type) Equal(u Type) bool { return t.DType == u.DType && slices.Equal(t.Shape, u.Shape) }

// Fits reports whether the number of bytes of t can be represented: every
// dimension is at least 0 and their product times the element size does not
// overflow an int64.
func (t Type) Fits() bool {
	n := int64(max(t.DType.Size(), 1))
	if t.DType.IsBlock() {
		n = 2 // blocks take less than 2 bytes per element
	}
	for _, d := range t.Shape {
		if d < 0 {
			return false
		}
		if d > 0 && n > math.MaxInt64/int64(d) {
			return false
		}
		n *= int64(max(d, 1))
	}
	return true
}

// Cotangent returns the type of the cotangent of a value of type t: see
// DType.Cotangent.
func (t Type) Cotangent() Type { return t.With(t.DType.Cotangent()) }

// With returns t with element type d. Both share the Shape.
func (t Type) With(d DType) Type { return Type{d, t.Shape} }
