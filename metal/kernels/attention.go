package kernels

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomoe/gomoe/lowering/ops"
)

// headMost is the longest head served. The tiles of a longer head do not fit into threadgroup
// memory.
const headMost = 128

func attentionKernel() Kernel {
	return Kernel{
		Name: "attention", Serves: []ops.Op{ops.Attention}, Primitives: []string{"attention"},
		Doc:       "attention with all its options, a tile of queries per threadgroup over tiles of keys and values, in simdgroup matrices; for up to 4 queries, parts of the keys per threadgroup. A NaN or an infinity also reaches the 7 tokens beside its own",
		Functions: slices.Concat(attentionForward(), decodeFunctions(), checkFunctions()),
		Build:     attentionProgram,
		Tolerance: Tolerance{Relative: 2e-6, OfMax: 2e-6, Why: "sums and exponentials in f32 a tile at a time, where the host has other tiles"},
	}
}

func attentionGradKernel() Kernel {
	return Kernel{
		Name: "attention_grad", Serves: []ops.Op{ops.AttentionGrad}, Primitives: []string{"attention_grad"},
		Doc:       "the gradient of attention: a tile of queries per threadgroup for dq, and of keys for dk and dv, whose heads of queries are added in order, in simdgroup matrices",
		Functions: slices.Concat(attentionGradFunctions(), checkFunctions()),
		Build:     attentionGradProgram,
		Tolerance: Tolerance{Relative: 1e-5, OfMax: 1e-5, Why: "sums in f32 a tile at a time, where the host has other tiles, of which differences are taken that cancel"},
	}
}

// heads are the sizes of an attention. Head i of the rank's n heads of queries uses head (off + i)
// / group of its m heads of keys.
type heads struct{ b, s, n, m, d, r, v, off, group int }

// attentionParams are the parameters of attention and of its derivative.
type attentionParams struct {
	Scale, SoftCap              float64
	Full                        bool
	Window                      int
	Lengths, Start, Sinks, Bias bool
}

// headsOf returns the sizes of the instruction's heads, the suffix of functions for their element
// type, and the fields of struct Attention.
func headsOf(in *Instr) (h heads, p attentionParams, suffix string, params Arg, err error) {
	q, k, v := in.Args[0].Type, in.Args[1].Type, in.Args[2].Type
	if suffix, err = float(q.DType); err != nil {
		return h, p, "", params, err
	}
	if p, err = paramsOf[attentionParams](in.Prim); err != nil {
		return h, p, "", params, err
	}
	h = heads{b: q.Shape[0], s: q.Shape[1], n: q.Shape[2], m: k.Shape[2], d: q.Shape[3], r: k.Shape[1], v: v.Shape[3]}
	all, keys := in.plan.Bufs[in.Args[0].Buf].Global.Shape[2], in.plan.Bufs[in.Args[1].Buf].Global.Shape[2]
	h.group = max(all/max(keys, 1), 1)
	if h.m == keys { // every rank has all heads of keys
		h.off = in.Start(in.Args[0], 2)
	}
	switch {
	case max(h.d, h.v) > headMost:
		return h, p, "", params, refuse("heads of %d elements, of which tiles do not fit into threadgroup memory; at most %d do", max(h.d, h.v), headMost)
	case h.d == 0 || h.v == 0:
		return h, p, "", params, refuse("heads without elements")
	case in.Ragged():
		return h, p, "", params, refuse("ragged rows")
	}
	scale := p.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(h.d))
	}
	return h, p, suffix, Params(h.s, h.n, h.m, h.d, scale, !p.Full, h.off, h.group), nil
}

// terms are the optional arguments of an attention, as buffers of its functions.
type terms struct {
	lengths, start, sinks, bias Arg
	checked                     []Launch      // of the lengths
	params                      Arg           // struct Terms
	constants                   map[int]int32 // codes of element types
	fault                       func([StatusLen]int32) error
}

// termsOf returns the terms, starting with argument number `first`.
func (h heads) termsOf(in *Instr, p attentionParams, first int) (t terms, err error) {
	if most := 1 << 28; p.Window > most || h.r > most {
		return t, refuse("a window of %d keys, or %d keys; at most %d", p.Window, h.r, most)
	}
	// optional returns the argument, or 0 and a placeholder that is not read.
	optional := func(given bool) (int, Arg) {
		if !given {
			return 0, In(0)
		}
		first++
		return first - 1, In(first - 1)
	}
	lengths, arg := optional(p.Lengths)
	t.lengths = arg
	_, t.start = optional(p.Start)
	sinks, arg := optional(p.Sinks)
	t.sinks = arg
	bias, arg := optional(p.Bias)
	t.bias = arg
	t.constants = map[int]int32{}
	for constant, i := range map[int]int{1: 1, 2: bias, 3: sinks} {
		if t.constants[constant] = 0; i > 0 {
			if t.constants[constant], err = operandCode(in.Args[i].Type.DType); err != nil {
				return t, err
			}
		}
	}
	biasB, biasN := 0, 0
	if bias > 0 {
		x := in.Args[bias].Type
		if x.Shape[1] > 1 {
			biasN = h.s * h.r
		}
		if x.Shape[0] > 1 {
			biasB = x.Shape[1] * h.s * h.r
		}
	}
	t.params = Params(h.r, h.v, p.Window, p.SoftCap, p.Lengths, p.Start, p.Sinks, p.Bias, biasB, biasN)
	if lengths > 0 {
		t.checked = []Launch{checked(lengths, h.b, 0, h.r+1)}
		t.fault = in.indexFault(lengths, h.r+1)
	}
	return t, nil
}

// program returns the program of the launches, following the check of lengths.
func (t terms) program(launches ...Launch) *Program {
	for _, l := range launches {
		for constant, code := range t.constants {
			if l.Constants != nil {
				l.Constants[constant] = code
			}
		}
	}
	p := program(append(t.checked, launches...)...)
	p.Fault = t.fault
	return p
}

func attentionProgram(in *Instr) (*Program, error) {
	h, p, suffix, params, err := headsOf(in)
	if err != nil {
		return nil, err
	}
	t, err := h.termsOf(in, p, 3)
	if err != nil {
		return nil, err
	}
	code, err := operandCode(in.Args[0].Type.DType)
	if err != nil {
		return nil, err
	}
	t.constants[4] = code
	if h.s <= decodeQueries {
		return h.decode(t, params)
	}
	// 16-bit numbers stay 16-bit if queries and keys have the same type.
	if in.Args[1].Type.DType != in.Args[0].Type.DType || in.Args[2].Type.DType != in.Args[0].Type.DType {
		suffix = "f32"
	}
	return t.program(Launch{
		Source: Source{File: "attention.metal"}, Function: fmt.Sprintf("attention_%d_%s", h.wide(), suffix), Constants: map[int]any{},
		Args:   []Arg{In(0), In(1), In(2), Out(0), Out(1), t.lengths, t.start, t.sinks, t.bias, params, t.params},
		Groups: [3]int{pieces(h.s, attentionRows), h.n, h.b}, Threads: [3]int{attentionThreads, 1, 1},
	}), nil
}
