package kernels

import (
	"fmt"
	"math"
	"strings"

	"github.com/gomoe/gomoe/graph"
)

// expression is the Metal code of an elementwise primitive.
type expression struct {
	// of writes the primitive into a function: it returns one expression per result. An error that
	// is a RefusalError leaves the instruction to the host.
	of func(p *part) ([]string, error)
	// ulps is the error bound of a result relative to the host's, in units in the last place of
	// float; 0 means equal bits.
	ulps float64
	// cancels is set if a result may be small although its operands are not. Its error is then
	// relative to the largest value.
	cancels bool
}

// part is an elementwise instruction inside a function being written. Floats of all types are
// computed in float, as on the host; bool and integers are computed in their own types.
type part struct {
	prim    graph.Primitive
	in, out []graph.DType
	x       []string // variables holding the arguments; each may be used any number of times
	text    *flatText
	index   int // among the parts of the instruction
}

// operand returns the element type for computing an operation on equal types.
func (p *part) operand() graph.DType {
	if len(p.in) > 0 {
		return p.in[len(p.in)-1]
	}
	return p.out[0]
}

func (p *part) float() bool { return p.operand().IsFloat() }

// metalType holds the Metal types for computing with and for storing an element type. Nothing is
// computed with 8-bit floats, whose codes stay unchanged.
type metalType struct{ value, storage string }

func metalTypeOf(d graph.DType) (metalType, error) {
	switch d {
	case graph.F32:
		return metalType{"float", "float"}, nil
	case graph.BF16:
		return metalType{"float", "bfloat"}, nil
	case graph.F16:
		return metalType{"float", "half"}, nil
	case graph.I32:
		return metalType{"int", "int"}, nil
	case graph.U32:
		return metalType{"uint", "uint"}, nil
	case graph.U8, graph.F8_E4M3, graph.F8_E5M2:
		return metalType{"uchar", "uchar"}, nil
	case graph.Bool:
		return metalType{"bool", "uchar"}, nil
	}
	return metalType{}, refuse("no elements of %s, only of f32, bf16, f16, f8_e4m3, f8_e5m2, i32, u32, u8 and bool", d)
}

// always is an expression with verbs standing for the arguments, in order; {t} stands for the type
// of the operands in the computation.
func always(format string) func(p *part) ([]string, error) {
	return func(p *part) ([]string, error) { return p.format(format) }
}

func (p *part) format(format string) ([]string, error) {
	args := make([]any, len(p.x))
	for i, x := range p.x {
		args[i] = x
	}
	t, err := metalTypeOf(p.operand())
	format = strings.ReplaceAll(format, "{t}", t.value)
	return []string{fmt.Sprintf(format, args...)}, err
}

// byType uses one expression for floats and another for integers.
func byType(float, integer string) func(p *part) ([]string, error) {
	return func(p *part) ([]string, error) {
		if p.float() {
			return p.format(float)
		}
		return p.format(integer)
	}
}

// ordered is a comparison; bool is compared as the integers 0 and 1.
func ordered(sign string) expression {
	return expression{of: func(p *part) ([]string, error) {
		if p.operand() == graph.Bool {
			return p.format("int(%s) " + sign + " int(%s)")
		}
		return p.format("%s " + sign + " %s")
	}}
}

// extreme is the larger or the smaller of two values.
func extreme(name, ofBool string) expression {
	return expression{of: func(p *part) ([]string, error) {
		if p.operand() == graph.Bool {
			return p.format(ofBool)
		}
		return p.format(name + "(%s, %s)")
	}}
}

// boolOrInt uses one expression for bool and another for the bits of integers.
func boolOrInt(ofBool, ofInt string) expression {
	return expression{of: func(p *part) ([]string, error) {
		if p.operand() == graph.Bool {
			return p.format(ofBool)
		}
		return p.format(ofInt)
	}}
}

// fullOf is a constant. It is a parameter of the function, so that functions differing only in
// constants have the same text.
func fullOf(p *part) ([]string, error) {
	f, ok := p.prim.(graph.FullOp)
	if !ok {
		return nil, refuse("made by %T", p.prim)
	}
	word, err := wordOf(f.Value, p.out[0])
	if err != nil {
		return nil, err
	}
	at := p.text.param(word)
	switch p.out[0] {
	case graph.F32, graph.BF16, graph.F16:
		return []string{"as_type<float>(" + at + ")"}, nil
	case graph.I32:
		return []string{"as_type<int>(" + at + ")"}, nil
	case graph.U8, graph.F8_E4M3, graph.F8_E5M2:
		return []string{"uchar(" + at + ")"}, nil
	case graph.Bool:
		return []string{"(" + at + " != 0u)"}, nil
	}
	return []string{at}, nil
}

// twoFloats splits x into two floats whose sum is close to x.
func twoFloats(x float64) (high, low uint32) {
	h := float32(x)
	l := float32(x - float64(h))
	if math.IsInf(float64(h), 0) {
		l = 0
	}
	return math.Float32bits(h), math.Float32bits(l)
}
