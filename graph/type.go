package graph

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Type is the element type and the global shape of a value. A nil or empty
// Shape is a scalar. Types are immutable: no code writes to a Shape it did not
// make.
type Type struct {
	DType DType
	Shape []int
}

// T returns the type with that element type and shape.
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

// Bytes returns the bytes that the elements take.
func (t Type) Bytes() int64 { return int64(t.Len()) * int64(t.DType.Size()) }

// Equal reports whether both types have the same element type and shape.
func (t Type) Equal(u Type) bool { return t.DType == u.DType && slices.Equal(t.Shape, u.Shape) }

// Fits reports whether the number of bytes of t can be represented: every
// dimension is at least 0 and their product times the element size does not
// overflow an int64.
func (t Type) Fits() bool {
	n := int64(max(t.DType.Size(), 1))
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

// With returns t with another element type.
func (t Type) With(d DType) Type { return Type{d, t.Shape} }
