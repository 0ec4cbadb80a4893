package kernels

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
)

// flat serves elementwise instructions and chains of them. Each gets a generated
// function.
func flat() Kernel {
	serves := slices.SortedFunc(maps.Keys(expressions()), func(a, b ops.Op) int { return strings.Compare(a.String(), b.String()) })
	var prims []string
	for _, op := range serves {
		prims = append(prims, op.String())
	}
	return Kernel{
		Name:       "flat",
		Serves:     append([]ops.Op{ops.Fused}, serves...),
		Primitives: prims,
		Doc:        "elementwise operations, one after another on each element",
		Build:      flatProgram,
		Tolerance:  Tolerance{Why: "see Program.Tolerance: equal bits where no function is approximated"},
	}
}

// flatBuffers is the limit on a Metal function's buffers, and flatParams the limit on the 4-byte
// parameters that one launch can copy.
const (
	flatBuffers = 31
	flatParams  = 1024
)

// flatProgram writes the function of an instruction and its launch.
func flatProgram(in *Instr) (*Program, error) {
	if !in.Flat && len(in.Chain) == 0 {
		return nil, refuse("is not elementwise")
	}
	n := in.Results[0].Type.Len()
	lanes, width := 1, n
	if in.Ragged() {
		width = rowLen(in.Results[0].Type)
	}
	if n%4 == 0 && width%4 == 0 {
		lanes = 4
	}
	f := &flatWriter{Instr: in, flatText: newFlatText(lanes, in.Ragged()), n: n, made: map[int]kept{}, loaded: map[argumentKey]string{}}
	if err := f.write(); err != nil {
		return nil, err
	}
	name, text := f.function()
	if f.buffers > flatBuffers {
		return nil, refuse("takes %d buffers, want at most %d", f.buffers, flatBuffers)
	}
	if len(f.words) > flatParams {
		return nil, refuse("takes %d parameters, want at most %d", len(f.words), flatParams)
	}
	f.words[flatCount], f.words[flatWidth], f.words[flatExperts], f.words[flatAlign] = uint32(n), uint32(width), uint32(in.Experts()), uint32(in.Align)
	l := Launch{Source: Source{Made: text}, Function: name}
	for i := range in.Args {
		l.Args = append(l.Args, In(i))
	}
	for i := range in.Results {
		l.Args = append(l.Args, Out(i))
	}
	p := &Program{Tolerance: f.tolerance()}
	if in.Ragged() {
		l.Args = append(l.Args, Zones())
	}
	if f.faults {
		l.Args = append(l.Args, Status())
		p.Fault = adamWFault(in)
	}
	words := make([]any, len(f.words))
	for i, w := range f.words {
		words[i] = w
	}
	l.Args = append(l.Args, Params(words...))
	l.Groups, l.Threads = line(n / lanes)
	p.Launches = []Launch{l}
	return p, nil
}

// lineThreads is the largest threadgroup of functions with an element per thread.
const lineThreads = 256

// line returns the grid for n threads.
func line(n int) (groups, threads [3]int) {
	each := min(lineThreads, max(32, (n+31)/32*32))
	return [3]int{(n + each - 1) / each, 1, 1}, [3]int{each, 1, 1}
}

// rowLen returns the number of elements of a row, which is one index of the first dimension.
func rowLen(t graph.Type) int {
	n := 1
	for _, s := range t.Shape[1:] {
		n *= s
	}
	return n
}

// flatWriter writes the function of one instruction.
type flatWriter struct {
	*Instr
	*flatText
	n      int
	made   map[int]kept // values written by parts, by buffer
	loaded map[argumentKey]string
	ulps   float64
	narrow float64 // relative error of values stored in f16 or bf16
	far    float64 // relative error of the results so far
	// cancels is set if results may be small although their operands are not.
	cancels bool
}

// kept is a value written by a part.
type kept struct {
	x     string
	dtype graph.DType
}

type argumentKey struct {
	index          int
	repeat, length int
}

func (f *flatWriter) write() error {
	for i, a := range f.Args {
		m, err := metalTypeOf(a.Type.DType)
		if err != nil {
			return err
		}
		f.buffer("device const "+m.storage+"*", fmt.Sprintf("a%d", i))
	}
	for i, o := range f.Results {
		m, err := metalTypeOf(o.Type.DType)
		if err != nil {
			return err
		}
		if o.Type.Len() != f.n || o.Ragged != f.Ragged() {
			return refuse("results of different rows or sizes")
		}
		f.buffer("device "+m.storage+"*", fmt.Sprintf("o%d", i))
	}
	parts := f.Chain
	if len(parts) == 0 {
		parts = []lowering.Instr{*f.Instr.Instr}
	}
	for k := range parts {
		if err := f.part(k, &parts[k]); err != nil {
			return err
		}
	}
	for i, o := range f.Results {
		v, ok := f.made[o.Buf]
		if !ok {
			return refuse("no part writes result %d", i)
		}
		if err := f.store(i, o.Type.DType, v.x); err != nil {
			return err
		}
	}
	return nil
}

// part writes one part: its arguments, its computation, and its results, rounded as they
// would be in memory.
func (f *flatWriter) part(index int, in *lowering.Instr) error {
	p := &part{prim: in.Prim, text: f.flatText, index: index}
	for _, b := range in.In {
		d := f.Operand(b).Type.DType
		x, err := f.argument(in, b)
		if err != nil {
			return err
		}
		p.in, p.x = append(p.in, d), append(p.x, x)
	}
	for _, b := range in.Out {
		p.out = append(p.out, f.Operand(b).Type.DType)
	}
	if in.Repeat > 0 {
		f.made[in.Out[0]] = kept{p.x[0], p.out[0]}
		return nil
	}
	op, _ := in.Op.(ops.Op)
	e, ok := expressions()[op]
	if !ok {
		return refuse("no expression for %s", in.Name())
	}
	results, err := e.of(p)
	if err != nil {
		return err
	}
	f.cancels = f.cancels || e.cancels || f.ulps > 0
	f.ulps += e.ulps
	f.far = f.ulps*0x1p-23 + f.narrow
	for i, d := range p.out {
		if f.ulps > 0 { // a later part may see a value that is one unit off
			f.narrow += map[graph.DType]float64{graph.BF16: 0x1p-7, graph.F16: 0x1p-10, graph.F8_E4M3: 0x1p-3, graph.F8_E5M2: 0x1p-2}[d]
		}
		x, err := f.rounded(d, results[i])
		if err != nil {
			return err
		}
		f.made[in.Out[i]] = kept{x, d}
	}
	return nil
}

// written returns the value written by a part to b, maybe under another name for the same memory.
// Arguments of the instruction are never such values, even if a result aliases them.
func (f *flatWriter) written(b int) (kept, bool) {
	v, ok := f.made[b]
	if ok || slices.Contains(f.Instr.In, b) {
		return v, ok
	}
	for _, o := range slices.Sorted(maps.Keys(f.made)) {
		if f.Root(o) == f.Root(b) {
			return f.made[o], true
		}
	}
	return kept{}, false
}

// argument returns the variable holding a part's argument b.
func (f *flatWriter) argument(in *lowering.Instr, b int) (string, error) {
	t := f.Operand(b).Type
	if v, ok := f.written(b); ok {
		if v.dtype != t.DType {
			return "", refuse("reads %s as %s", v.dtype, t.DType)
		}
		return v.x, nil
	}
	i := slices.Index(f.Instr.In, b)
	if i < 0 {
		return "", refuse("reads a buffer that is none of the instruction's arguments")
	}
	a := argument{dtype: t.DType, repeat: in.Repeat, length: t.Len()}
	a.scalar = a.repeat == 0 && t.Rank() == 0 && f.n != 1
	switch {
	case a.repeat > 0 && f.Args[i].Ragged && a.repeat*a.length != f.n:
		return "", refuse("repeats ragged rows")
	case a.repeat == 0 && !a.scalar && t.Len() != f.n:
		return "", refuse("%s is read element by element for %d", t, f.n)
	case a.repeat == 0 && !a.scalar && f.Args[i].Ragged != f.Ragged():
		return "", refuse("reads whole rows beside ragged ones")
	}
	key := argumentKey{i, a.repeat, a.length}
	if v, ok := f.loaded[key]; ok {
		return v, nil
	}
	v, err := f.load(i, a, f.n)
	f.loaded[key] = v
	return v, err
}

// tolerance adds up the errors of the parts. A later part that cancels may increase an error
// relative to its result, but hardly relative to the largest value.
func (f *flatWriter) tolerance() *Tolerance {
	if f.ulps == 0 {
		return &Tolerance{}
	}
	t := &Tolerance{Absolute: 0x1p-124, Relative: f.far,
		Why: fmt.Sprintf("Metal's functions and the host's differ by up to %v ulp, which may round otherwise; numbers below the normal ones may be 0", f.ulps)}
	if f.cancels {
		t.OfMax = t.Relative
	}
	return t
}

// wordOf returns the bits of x as element type d; 16-bit floats are widened to f32.
func wordOf(x float64, d graph.DType) (uint32, error) {
	if _, err := metalTypeOf(d); err != nil {
		return 0, err
	}
	one := array.New(graph.T(d))
	one.Fill(x)
	switch d {
	case graph.BF16, graph.F16:
		one = one.As(graph.F32)
	case graph.U8, graph.Bool, graph.F8_E4M3, graph.F8_E5M2:
		return uint32(one.Bytes()[0]), nil
	}
	return array.Data[uint32](array.Over(graph.T(graph.U32), one.Bytes()))[0], nil
}
