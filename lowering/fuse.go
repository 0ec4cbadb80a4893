package lowering

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
)

// fuse joins chains and trees of elementwise instructions into instructions that
// walk their arrays in chunks and run every kernel on a chunk while it is in
// the cache. What nobody else reads is never stored.
//
// A fused instruction stands where the last of its parts stood. Parts join if
// they have as many elements, and the same rows in use if those are ragged; if
// no instruction between them reads what the earlier one writes; and if keeping
// the earlier one's arguments for longer does not raise the most memory that
// temporaries take at once.
//
// A fused instruction reads and writes no more than `most` buffers, if that is not 0.
func (p *Plan) fuse(chunk, most int) {
	f := &fuser{Plan: p, chunk: chunk, most: most}
	f.spread()
	f.index()
	for i := range f.list {
		f.grow(f.units[i])
	}
	f.rebuild()
}

// fuser is the state of the pass.
type fuser struct {
	*Plan
	chunk int     // see Options
	most  int     // buffers of an instruction; 0 is any number
	list  []Instr // the plan's, with repetitions next to their readers
	// Of the instructions by index: unit is the one that it runs in. A unit is
	// named after its last instruction.
	units   []*unit
	reads   map[int][]int // by root buffer, instructions
	writes  map[int][]int
	peak    int64 // the most that temporaries take at once, in bytes, before
	profile []int64
}

// unit is what becomes one instruction: indexes into the list, ascending.
type unit struct{ parts []int }

func (u *unit) at() int { return u.parts[len(u.parts)-1] }

// class tells which instructions can be joined: their elements, and the rows in
// use.
type class struct {
	n, rows      int
	zones, align int
}

// class returns the class of an instruction; ok is false if it can not be
// fused.
func (p *Plan) class(in *Instr) (c class, ok bool) {
	if !in.Flat || len(in.Out) == 0 {
		return c, false
	}
	first := p.Bufs[in.Out[0]]
	c = class{n: first.Type.Len(), zones: -1}
	if in.Zones >= 0 {
		c.zones, c.align, c.rows = p.Root(in.Zones), in.Align, first.Type.Shape[0]
	}
	fits := func(b int) bool {
		x := &p.Bufs[b]
		ragged := x.Spec.Ragged != nil
		if p.Bufs[p.Root(b)].Type.DType.Size() != x.Type.DType.Size() {
			return false
		}
		return x.Type.Len() == c.n && ragged == (in.Zones >= 0) && (!ragged || x.Type.Shape[0] == c.rows)
	}
	for _, b := range in.Out {
		if !fits(b) {
			return c, false
		}
	}
	for _, b := range in.In {
		whole := p.Bufs[b].Type.Rank() == 0 && first.Type.Rank() > 0
		if in.Repeat == 0 && !whole && !fits(b) {
			return c, false
		}
	}
	return c, true
}

// repetition reports whether an instruction is cheaper to run again than its
// result is to load: a constant, or a broadcast.
func repetition(in *Instr) bool {
	return in.Flat && in.Prim != nil && (in.Repeat > 0 || len(in.In) == 0)
}

// spread puts a copy of every repetition in front of each elementwise
// instruction that reads it, with which it will be fused.
func (f *fuser) spread() {
	readers := map[int][]int{}
	for i := range f.Instrs {
		for _, r := range f.roots(f.inputs(&f.Instrs[i])) {
			readers[r] = append(readers[r], i)
		}
	}
	before := map[int][]Instr{} // what to put in front of an instruction
	gone := map[int]bool{}
	for i := range f.Instrs {
		in := &f.Instrs[i]
		c, ok := f.class(in)
		if !ok || !repetition(in) || f.Bufs[in.Out[0]].Storage != Temp {
			continue
		}
		others := false
		for _, k := range readers[in.Out[0]] {
			to := &f.Instrs[k]
			d, ok := f.class(to)
			if !ok || d != c || repetition(to) {
				others = true
				continue
			}
			again := *in
			again.Out = []int{len(f.Bufs)}
			f.Bufs = append(f.Bufs, f.Bufs[in.Out[0]])
			before[k] = append(before[k], again)
			to.In = slices.Clone(to.In)
			for j, b := range to.In {
				if f.Root(b) == in.Out[0] {
					to.In[j] = again.Out[0]
				}
			}
		}
		gone[i] = !others
	}
	for i := range f.Instrs {
		f.list = append(f.list, before[i]...)
		if !gone[i] {
			f.list = append(f.list, f.Instrs[i])
		}
	}
}

// inputs returns the buffers that an instruction reads.
func (p *Plan) inputs(in *Instr) []int {
	if in.Zones < 0 {
		return in.In
	}
	return append(slices.Clone(in.In), in.Zones)
}

// roots returns the owners of the buffers' memory, each once.
func (p *Plan) roots(bufs []int) []int {
	var out []int
	for _, b := range bufs {
		if r := p.Root(b); !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

func (f *fuser) index() {
	f.reads, f.writes = map[int][]int{}, map[int][]int{}
	for i := range f.list {
		in := &f.list[i]
		f.units = append(f.units, &unit{[]int{i}})
		for _, r := range f.roots(f.inputs(in)) {
			f.reads[r] = append(f.reads[r], i)
		}
		for _, r := range f.roots(in.Out) {
			f.writes[r] = append(f.writes[r], i)
		}
	}
	f.measure()
	for _, n := range f.profile {
		f.peak = max(f.peak, n)
	}
}

// grow joins u with the units that compute its arguments, as long as there is
// one with which it may be joined.
func (f *fuser) grow(u *unit) {
	c, ok := f.class(&f.list[u.at()])
	if !ok {
		return
	}
	for joined := true; joined; {
		joined = false
		for _, i := range u.parts {
			for _, r := range f.roots(f.list[i].In) {
				w := f.writes[r]
				if len(w) != 1 || f.units[w[0]] == u {
					continue
				}
				v := f.units[w[0]]
				if d, ok := f.class(&f.list[v.at()]); ok && d == c && f.may(v, u) {
					f.join(v, u)
					joined = true
				}
			}
			if joined {
				break
			}
		}
	}
}

func (f *fuser) join(v, u *unit) {
	u.parts = append(u.parts, v.parts...)
	slices.Sort(u.parts)
	for _, i := range v.parts {
		f.units[i] = u
	}
	f.profile = nil
}

// may reports whether v, which stands before u, may run where u does.
func (f *fuser) may(v, u *unit) bool {
	between := func(i int) bool {
		x := f.units[i]
		return x != v && x != u && v.at() < x.at() && x.at() < u.at()
	}
	var in, out []int
	for _, i := range v.parts {
		in = append(in, f.inputs(&f.list[i])...)
		out = append(out, f.list[i].Out...)
	}
	in, out = f.roots(in), f.roots(out)
	if f.most > 0 && f.bound(v, u) > f.most {
		return false
	}
	for _, r := range out {
		repeated := func(i int) bool { return f.units[i] == u && f.list[i].Repeat > 0 }
		if len(f.writes[r]) > 1 || slices.ContainsFunc(f.reads[r], between) || slices.ContainsFunc(f.reads[r], repeated) {
			return false
		}
	}
	var held int64 // what lives longer
	for _, r := range in {
		if slices.ContainsFunc(f.writes[r], between) {
			return false
		}
		if f.Bufs[r].Storage == Temp && !slices.Contains(out, r) && f.last(r) < u.at() {
			held += padded(f.Bufs[r].Type.Bytes())
		}
	}
	var later, never int64 // what is written later, and of it what is not stored any more
	for _, r := range out {
		if f.Bufs[r].Storage != Temp || f.inside(r) {
			continue
		}
		n := padded(f.Bufs[r].Type.Bytes())
		later += n
		if !slices.ContainsFunc(f.reads[r], func(i int) bool { return f.units[i] != u && f.units[i] != v }) {
			never += n
		}
	}
	if held <= never {
		return true
	}
	if f.profile == nil {
		f.measure()
	}
	for at := v.at() + 1; at < u.at(); at++ {
		if f.profile[at]+held-later > f.peak {
			return false
		}
	}
	return f.profile[u.at()]+held-never <= f.peak
}

// bound returns how many buffers v and u together read and write, but for those that
// would be inside.
func (f *fuser) bound(v, u *unit) int {
	var all []int
	for _, x := range []*unit{v, u} {
		for _, i := range x.parts {
			all = append(append(all, f.inputs(&f.list[i])...), f.list[i].Out...)
		}
	}
	n := 0
	for _, r := range f.roots(all) {
		outside := func(i int) bool { return f.units[i] != v && f.units[i] != u }
		w := f.writes[r]
		if f.Bufs[r].Storage != Temp || len(w) != 1 || outside(w[0]) || slices.ContainsFunc(f.reads[r], outside) {
			n++
		}
	}
	return n
}

// last returns where r is read last.
func (f *fuser) last(r int) int {
	at := -1
	for _, i := range f.reads[r] {
		at = max(at, f.units[i].at())
	}
	return at
}

// measure finds how much memory temporaries take at every instruction.
func (f *fuser) measure() {
	change := make([]int64, len(f.list)+1)
	for r, w := range f.writes {
		if f.Bufs[r].Storage != Temp {
			continue
		}
		def := len(f.list)
		for _, i := range w {
			def = min(def, f.units[i].at())
		}
		last := max(def, f.last(r))
		if f.inside(r) {
			continue
		}
		change[def] += padded(f.Bufs[r].Type.Bytes())
		change[last+1] -= padded(f.Bufs[r].Type.Bytes())
	}
	f.profile = make([]int64, len(f.list))
	var sum int64
	for i := range f.profile {
		sum += change[i]
		f.profile[i] = sum
	}
}

// inside reports whether r is written and read by the parts of one fused unit
// only.
func (f *fuser) inside(r int) bool {
	if f.Bufs[r].Storage != Temp || len(f.writes[r]) != 1 {
		return false
	}
	u := f.units[f.writes[r][0]]
	return len(u.parts) > 1 && !slices.ContainsFunc(f.reads[r], func(i int) bool { return f.units[i] != u })
}

// rebuild writes the plan's instructions anew.
func (f *fuser) rebuild() {
	f.Instrs = nil
	for i := range f.list {
		switch u := f.units[i]; {
		case u.at() != i:
		case len(u.parts) == 1:
			f.Instrs = append(f.Instrs, f.list[i])
		default:
			f.Instrs = append(f.Instrs, f.fused(u))
		}
	}
}

// fused returns the instruction that runs u's parts.
func (f *fuser) fused(u *unit) Instr {
	last := &f.list[u.at()]
	in := Instr{InPlace: true, Prim: nil, Pos: last.Pos, Zones: last.Zones, Align: last.Align}
	var names []string
	made := map[int]bool{}     // roots that a part has written
	copies := map[string]int{} // buffers of repetitions that are there already
	for _, i := range u.parts {
		part := f.list[i]
		if repetition(&part) && f.inside(part.Out[0]) {
			// Copies for several parts become one again.
			key := fmt.Sprint(part.Name, part.In, part.Repeat, graph.ParamString(part.Prim), part.Pos)
			f.Bufs[part.Out[0]].Storage = Chunk
			if b, ok := copies[key]; ok {
				f.Bufs[part.Out[0]].Storage, f.Bufs[part.Out[0]].Of = Alias, b
				continue
			}
			copies[key] = part.Out[0]
		}
		for _, b := range part.In {
			if !made[f.Root(b)] && !slices.Contains(in.In, b) {
				in.In = append(in.In, b)
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
		names = append(names, part.Name)
		in.Chain = append(in.Chain, part)
	}
	in.Name = "fused(" + strings.Join(runs(names), ", ") + ")"
	links := make([]exec.Link, len(in.Chain))
	for i := range in.Chain {
		part := &in.Chain[i]
		links[i] = exec.Link{Kernel: part.Kernel, Repeat: part.Repeat, In: f.operands(part.In), Out: f.operands(part.Out)}
	}
	in.Kernel, in.Scratch = exec.NewChain(f.operands(in.In), f.operands(in.Out), links, f.chunk)
	return in
}

// operands are buffers as a chain wants them.
func (p *Plan) operands(bufs []int) []exec.Operand {
	out := make([]exec.Operand, len(bufs))
	for i, b := range bufs {
		out[i] = exec.Operand{Buf: b, Mem: p.Root(b), Type: p.Bufs[b].Type}
	}
	return out
}

// Link returns which instruction of a fused one err is about, nil for none.
func (in *Instr) Link(err error) *Instr {
	var e *exec.LinkError
	if errors.As(err, &e) && e.Link < len(in.Chain) {
		return &in.Chain[e.Link]
	}
	return nil
}

// runs shortens repeated names: mul, add, add is mul, add ×2.
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
