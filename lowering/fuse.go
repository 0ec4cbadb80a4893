package lowering

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// fuse combines chains and trees of elementwise instructions into fused instructions. A
// fused instruction processes its arrays in chunks and runs every kernel on a chunk while
// the chunk is in the cache. A result read only by parts of the same fused instruction is
// never stored.
//
// A fused instruction takes the place of its last part. Two parts are fused if all of
// this holds: they have equally many elements and, if their rows are ragged, the same
// rows in use; no instruction between them reads the earlier one's results; and keeping
// the earlier one's arguments for longer does not raise the peak memory of temporaries.
//
// For a target that is a Chainer, parts are fused only if the target can run all of them
// or none of them. For a Binder, a fused instruction reads and writes at most MostBuffers
// buffers.
func (p *Plan) fuse(chunk int, t Target) {
	f := &fuser{Plan: p, chunk: chunk, most: mostBuffers(t)}
	f.spread(p.foreignTo(t))
	f.index()
	for i := range f.list {
		f.grow(i)
	}
	f.rebuild()
}

// class determines which instructions can be fused: the ones with equal classes. It has
// the number of elements, their division if it differs between ranks, the rows in use,
// and whether a target leaves the instruction to the host.
type class struct {
	n, rows      int
	zones, align int
	uneven       string
	foreign      bool
}

// unfused is the number of elements in the class of instructions that cannot be fused.
const unfused = -1

// classOf returns the class of an instruction. It does not set foreign.
func (p *Plan) classOf(in *Instr) class {
	if !in.Flat || len(in.Out) == 0 {
		return class{n: unfused}
	}
	first := p.Bufs[in.Out[0]]
	c := class{n: first.Type.Len(), zones: -1, uneven: p.cuts(&first)}
	if in.Zones >= 0 {
		c.zones, c.align, c.rows = p.Root(in.Zones), in.Align, first.Type.Shape[0]
	}
	fits := func(b int) bool {
		x := &p.Bufs[b]
		ragged := x.Spec.Ragged != nil
		if p.Bufs[p.Root(b)].Type.DType.Size() != x.Type.DType.Size() {
			return false
		}
		return x.Type.Len() == c.n && p.cuts(x) == c.uneven && ragged == (in.Zones >= 0) && (!ragged || x.Type.Shape[0] == c.rows)
	}
	for _, b := range in.Out {
		if !fits(b) {
			return class{n: unfused}
		}
	}
	for _, b := range in.In {
		whole := p.Bufs[b].Type.Rank() == 0 && first.Type.Rank() > 0
		if in.Repeat == 0 && !whole && !fits(b) {
			return class{n: unfused}
		}
	}
	return c
}

// cuts describes the dimensions with parts differing in size between ranks. Buffers with
// equal descriptions and lengths have parts of equal lengths on every rank.
func (p *Plan) cuts(b *Buffer) string {
	if b.Uneven == "" {
		return ""
	}
	var s []string
	for d, n := range b.Global.Shape {
		if !b.Spec.Even(p.Mesh, b.Global, d) {
			s = append(s, fmt.Sprint(n, b.Spec.At(d)))
		}
	}
	return strings.Join(s, " ")
}

// repetition reports whether rerunning an instruction is cheaper than loading its result:
// whether it is a constant or a broadcast.
func repetition(in *Instr) bool {
	return in.Flat && in.Prim != nil && (in.Repeat > 0 || len(in.In) == 0)
}

// spread inserts a copy of every repetition before each elementwise instruction reading
// it, so that the two will be fused. The copy is foreign if its reader is foreign. A
// foreign repetition is not copied for a reader run by the target, because the copy would
// move the reader's chain to the host.
func (f *fuser) spread(foreign []bool) {
	readers := make([][]int, len(f.Bufs))
	classes := make([]class, len(f.Instrs))
	for i := range f.Instrs {
		classes[i] = f.classOf(&f.Instrs[i])
		for _, r := range f.roots(f.inputs(&f.Instrs[i])) {
			readers[r] = append(readers[r], i)
		}
	}
	before := make([][]Instr, len(f.Instrs))     // the copies to insert before an instruction
	copies := make([]map[int]int, len(f.Instrs)) // the copies that it reads instead of repetitions' results
	gone := make([]bool, len(f.Instrs))
	unmade := map[int]*Instr{} // removed instructions, by their results
	for i := range f.Instrs {
		in := &f.Instrs[i]
		if classes[i].n == unfused || !repetition(in) || f.Bufs[in.Out[0]].Storage != Temp {
			continue
		}
		others := false
		for _, k := range readers[in.Out[0]] {
			if classes[k] != classes[i] || repetition(&f.Instrs[k]) || foreign[i] && !foreign[k] {
				others = true
				continue
			}
			again := *in
			again.Out = []int{len(f.Bufs)}
			f.Bufs = append(f.Bufs, f.Bufs[in.Out[0]])
			before[k] = append(before[k], again)
			if copies[k] == nil {
				copies[k] = map[int]int{}
			}
			copies[k][in.Out[0]] = again.Out[0]
		}
		if gone[i] = !others; gone[i] {
			unmade[in.Out[0]] = in
		}
	}
	f.expect(unmade)
	for i, in := range f.Instrs {
		f.list = append(f.list, before[i]...)
		for range before[i] {
			f.foreign = append(f.foreign, foreign[i])
		}
		if gone[i] {
			continue
		}
		if copies[i] != nil {
			in.In = slices.Clone(in.In)
			for j, b := range in.In {
				if c, ok := copies[i][f.Root(b)]; ok {
					in.In[j] = c
				}
			}
		}
		f.list, f.foreign = append(f.list, in), append(f.foreign, foreign[i])
	}
}

// expect makes buffers waiting for the results of removed repetitions wait for the
// repetitions' arguments instead.
func (f *fuser) expect(gone map[int]*Instr) {
	for b := range f.Bufs {
		var after []int
		for _, x := range f.Bufs[b].After {
			if in := gone[f.Root(x)]; in != nil {
				after = append(after, in.In...)
			} else {
				after = append(after, x)
			}
		}
		f.Bufs[b].After = after
	}
}

// after returns the buffers with makers that must precede an instruction, other than the
// buffers it reads.
func (p *Plan) after(in *Instr) []int {
	var out []int
	for _, b := range in.In {
		out = append(out, p.Bufs[b].After...)
	}
	return out
}

// inputs returns the buffers that an instruction reads.
func (p *Plan) inputs(in *Instr) []int {
	if in.Zones < 0 {
		return in.In
	}
	return append(slices.Clone(in.In), in.Zones)
}

// roots returns the buffers owning the memory of bufs, each once.
func (p *Plan) roots(bufs []int) []int {
	out := make([]int, 0, len(bufs))
	var seen map[int]bool // only for many buffers
	if len(bufs) > 16 {
		seen = make(map[int]bool, len(bufs))
	}
	for _, b := range bufs {
		r := p.Root(b)
		if seen != nil {
			if seen[r] {
				continue
			}
			seen[r] = true
		} else if slices.Contains(out, r) {
			continue
		}
		out = append(out, r)
	}
	return out
}

// rebuild replaces the plan's instructions by the instructions of the list, with units
// fused.
func (f *fuser) rebuild() {
	f.Instrs = nil
	for i := range f.list {
		switch u := f.units[i]; {
		case u.at != i:
		case len(u.parts) == 1:
			f.Instrs = append(f.Instrs, f.list[i])
		default:
			f.Instrs = append(f.Instrs, f.fused(u))
		}
	}
}

// fused returns the instruction running u's parts.
func (f *fuser) fused(u *unit) Instr {
	slices.Sort(u.parts)
	last := &f.list[u.at]
	in := Instr{Op: ops.Fused, InPlace: true, Prim: nil, Pos: last.Pos, Zones: last.Zones, Align: last.Align}
	made := map[int]bool{}     // roots written by a part
	read := map[int]bool{}     // arguments
	copies := map[string]int{} // the buffers of repetitions already in the chain
	for _, i := range u.parts {
		part := f.list[i]
		if repetition(&part) && f.inside(part.Out[0]) {
			// The copies for several parts of the chain become one again.
			key := fmt.Sprint(part.Op, part.In, part.Repeat, graph.ParamString(part.Prim), part.Pos)
			f.Bufs[part.Out[0]].Storage = Chunk
			if b, ok := copies[key]; ok {
				f.Bufs[part.Out[0]].Storage, f.Bufs[part.Out[0]].Of = Alias, b
				continue
			}
			copies[key] = part.Out[0]
		}
		for _, b := range part.In {
			if !made[f.Root(b)] && !read[b] {
				in.In, read[b] = append(in.In, b), true
			}
		}
		for _, b := range part.Out {
			made[f.Root(b)] = true
			if f.inside(f.Root(b)) {
				f.Bufs[f.Root(b)].Storage = Chunk
			}
			if f.Bufs[f.Root(b)].Storage != Chunk {
				in.Out = append(in.Out, b)
			}
		}
		in.Chain = append(in.Chain, part)
	}
	links := make([]exec.Link, len(in.Chain))
	for i := range in.Chain {
		part := &in.Chain[i]
		links[i] = exec.Link{Kernel: part.Kernel, Repeat: part.Repeat, In: f.operands(part.In), Out: f.operands(part.Out)}
	}
	in.Kernel, in.Scratch = exec.NewChain(f.operands(in.In), f.operands(in.Out), links, f.chunk)
	return in
}

// operands returns the buffers as operands of a chain.
func (p *Plan) operands(bufs []int) []exec.Operand {
	out := make([]exec.Operand, len(bufs))
	for i, b := range bufs {
		out[i] = exec.Operand{Buf: b, Mem: p.Root(b), Type: p.Bufs[b].Type}
	}
	return out
}

// Link returns the part of a fused instruction that err refers to, or nil.
func (in *Instr) Link(err error) *Instr {
	var e *exec.LinkError
	if errors.As(err, &e) && e.Link < len(in.Chain) {
		return &in.Chain[e.Link]
	}
	return nil
}

// runs returns names with repetitions shortened: mul, add, add becomes mul, add ×2.
func runs(names []string) []string {
	var out []string
	for i := 0; i < len(names); {
		k := i + 1
		for k < len(names) && names[k] == names[i] {
			k++
		}
		name := names[i]
		if k-i > 1 {
			name += fmt.Sprintf(" ×%d", k-i)
		}
		out = append(out, name)
		i = k
	}
	return out
}
