package graph

import (
	"errors"
	"fmt"
	"slices"
)

// These are the toy primitives of the text form's tests. They have every kind of
// parameter, a family whose members differ in unexported fields, no results, several
// results, and one that panics.

type toyDot struct{ LHSContract, RHSContract int }

func (toyDot) Name() string { return "dot" }

func (d toyDot) Infer(in []Type) ([]Type, error) {
	if len(in) != 2 {
		return nil, fmt.Errorf("%d arguments, want 2", len(in))
	}
	for i, axis := range []int{d.LHSContract, d.RHSContract} {
		if in[i].Rank() != 2 || axis < 0 || axis > 1 {
			return nil, errors.New("want two matrices and an axis of each")
		}
	}
	if in[0].Shape[d.LHSContract] != in[1].Shape[d.RHSContract] {
		return nil, fmt.Errorf("contracted sizes are %d and %d, want equal ones", in[0].Shape[d.LHSContract], in[1].Shape[d.RHSContract])
	}
	return []Type{T(in[0].DType, in[0].Shape[1-d.LHSContract], in[1].Shape[1-d.RHSContract])}, nil
}

// toyUnary is a family: one Go type, several primitives.
type toyUnary struct{ name string }

func (u toyUnary) Name() string { return u.name }

func (u toyUnary) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 {
		return nil, fmt.Errorf("%d arguments, want 1", len(in))
	}
	return in, nil
}

type toyTopK struct{ K, Axis int }

func (toyTopK) Name() string { return "top_k" }

func (t toyTopK) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 || in[0].Rank() == 0 {
		return nil, errors.New("want one argument with a dimension")
	}
	s := slices.Clone(in[0].Shape)
	s[len(s)-1] = t.K
	return []Type{{in[0].DType, s}, {I32, s}}, nil
}

type toyMode string

type toyAxes struct{ Axes []int }

// toyAll has one parameter of every kind, embedded ones first.
type toyAll struct {
	toyAxes
	I      int
	I64    int64
	U      uint64
	F      float64
	Half   float32
	OK     bool
	Mode   toyMode
	Groups [][]int
	Names  []string
	Ratios []float64
	DType  DType
	Fn     *Program
	hidden int
}

func (toyAll) Name() string                    { return "all" }
func (toyAll) Infer(in []Type) ([]Type, error) { return in, nil }

// toyShare has a pointer as its prototype.
type toyShare struct{ Tag string }

func (*toyShare) Name() string                    { return "share" }
func (*toyShare) Infer(in []Type) ([]Type, error) { return in, nil }

type toyPrint struct{}

func (toyPrint) Name() string                 { return "print" }
func (toyPrint) Infer([]Type) ([]Type, error) { return nil, nil }

type toyPanic struct{ At int }

func (toyPanic) Name() string { return "panic" }
func (p toyPanic) Infer(in []Type) ([]Type, error) {
	return []Type{in[p.At]}, nil
}

type toyOdd struct{ F func() }

func (toyOdd) Name() string                    { return "odd" }
func (toyOdd) Infer(in []Type) ([]Type, error) { return in, nil }

// toySwitch refers to a list of programs.
type toySwitch struct{ Cases []*Program }

func (toySwitch) Name() string                    { return "switch" }
func (toySwitch) Infer(in []Type) ([]Type, error) { return in, nil }

// toyKernel is a family whose members differ only in a function.
type toyKernel struct{ name func() string }

func (k toyKernel) Name() string                  { return k.name() }
func (toyKernel) Infer(in []Type) ([]Type, error) { return in, nil }

func toys() []Primitive {
	return []Primitive{toyDot{}, toyUnary{"neg"}, toyUnary{"exp"}, toyTopK{K: 3}, toyAll{hidden: 7, F: 2}, &toyShare{}, toyPrint{}, toyPanic{}, toyOdd{}, toySwitch{}}
}
