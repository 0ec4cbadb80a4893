package array

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/graph"
)

// Arrays with more elements than this are printed with only the first and the last edge
// indices of each dimension, as in numpy.
const (
	printed = 1000
	edge    = 3
)

// String returns the type and the elements, nested in brackets; large arrays are
// abbreviated to their corners. The text is for display: floats have only the digits
// needed to distinguish the numbers of their type.
func (a Array) String() string {
	if a.Type.DType.IsBlock() {
		elements := a.As(graph.F32).String()
		return a.Type.String() + strings.TrimPrefix(elements, a.Type.With(graph.F32).String())
	}
	if a.Type.DType.Size() == 0 {
		return a.Type.String()
	}
	p := printer{a: a, limit: a.Type.Len() > printed}
	gap := " "
	if a.Type.Rank() > 1 {
		gap = "\n"
		p.walk(0, 0, func(i int) { p.width = max(p.width, len(p.element(i))) }, func(string) {})
	}
	p.walk(0, 0, func(i int) { fmt.Fprintf(&p.b, "%*s", p.width, p.element(i)) }, func(s string) { p.b.WriteString(s) })
	return a.Type.String() + gap + p.b.String()
}

type printer struct {
	a     Array
	limit bool
	width int
	b     strings.Builder
}

// walk visits the elements whose index begins with the same dim indices as flat
// index at, and the punctuation between them.
func (p *printer) walk(dim, at int, element func(int), text func(string)) {
	shape := p.a.Type.Shape
	if dim == len(shape) {
		element(at)
		return
	}
	gap := " "
	if inner := len(shape) - dim - 1; inner > 0 {
		gap = strings.Repeat("\n", inner) + strings.Repeat(" ", dim+1)
	}
	text("[")
	for i := 0; i < shape[dim]; i++ {
		if i > 0 {
			text(gap)
		}
		if p.limit && i == edge && shape[dim] > 2*edge {
			text("..." + gap)
			i = shape[dim] - edge
		}
		p.walk(dim+1, at*shape[dim]+i, element, text)
	}
	text("]")
}

func (p *printer) element(i int) string {
	switch p.a.Type.DType {
	case graph.Bool:
		return strconv.FormatBool(Data[bool](p.a)[i])
	case graph.U8:
		return strconv.Itoa(int(Data[uint8](p.a)[i]))
	case graph.U32:
		return strconv.Itoa(int(Data[uint32](p.a)[i]))
	case graph.I32:
		return strconv.Itoa(int(Data[int32](p.a)[i]))
	case graph.I64:
		return strconv.FormatInt(Data[int64](p.a)[i], 10)
	case graph.F16: // 5 digits distinguish any two f16 numbers, 4 digits any two bf16 numbers
		return strconv.FormatFloat(float64(Data[Half](p.a)[i].Float32()), 'g', 5, 32)
	case graph.BF16:
		return strconv.FormatFloat(float64(Data[Brain](p.a)[i].Float32()), 'g', 4, 32)
	case graph.F8_E4M3:
		return strconv.FormatFloat(float64(Data[E4M3](p.a)[i].Float32()), 'g', 2, 32)
	case graph.F8_E5M2:
		return strconv.FormatFloat(float64(Data[E5M2](p.a)[i].Float32()), 'g', 2, 32)
	case graph.F32:
		return strconv.FormatFloat(float64(Data[float32](p.a)[i]), 'g', -1, 32)
	}
	return strconv.FormatFloat(Data[float64](p.a)[i], 'g', -1, 64)
}
