package lowering

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
)

// align is the alignment of temporaries: a cache line, and the widest vector.
const align = 64

// lifetimes sets Def and Last of every buffer owning memory. If a collective touching the
// buffer is waited for at the end, Last is the number of instructions.
func (p *Plan) lifetimes() {
	touch := func(b, i int) {
		buf := &p.Bufs[p.Root(b)]
		if buf.Def < 0 {
			buf.Def = i
		}
		buf.Last = max(buf.Last, i)
	}
	for i := range p.Bufs {
		p.Bufs[i].Def, p.Bufs[i].Last = -1, -1
	}
	for i := range p.Instrs {
		in := &p.Instrs[i]
		for _, b := range in.In {
			touch(b, i)
		}
		for _, b := range in.Out {
			touch(b, i)
		}
		if in.Zones >= 0 {
			touch(in.Zones, i)
		}
		if in.Wait > 0 { // the exchange is under way until instruction Wait
			for _, b := range slices.Concat(in.In, in.Out) {
				touch(b, in.Wait)
			}
		}
	}
}

// donate pairs inputs with the results that reuse their memory. If the input is last read
// before the result is first written, or by the in-place instruction writing the result,
// the result is written into the input's memory. Otherwise the input's memory serves a
// result of the next step.
func (p *Plan) donate(pairs map[string]int) error {
	p.lifetimes()
	taken := map[int]string{}
	for i, in := range p.In {
		o, ok := pairs[in.Name]
		if !ok {
			continue
		}
		if o < 0 || o >= len(p.Out) {
			return fmt.Errorf("lowering: input %s is donated to result %d, but %s has %d results", in.Name, o, p.Name, len(p.Out))
		}
		out := p.Out[o]
		if other, ok := taken[o]; ok {
			return fmt.Errorf("lowering: inputs %s and %s are both donated to result %s; donate one of them", other, in.Name, out.Name)
		}
		taken[o] = in.Name
		if !in.Type.Equal(out.Type) || !in.Spec.Equal(out.Spec) {
			return fmt.Errorf("lowering: input %s %s cannot be donated to result %s %s; want the same type and placement", in.Name, in.Spec.Format(in.Type), out.Name, out.Spec.Format(out.Type))
		}
		d := Donation{In: i, Out: o}
		ib, ob := p.Root(in.Buf), p.Root(out.Buf)
		last, def := p.Bufs[ib].Last, p.Bufs[ob].Def
		if def >= 0 && (last < def || last == def && p.overwrites(def, ob, ib)) {
			p.Bufs[ob].Storage, p.Bufs[ob].Of = Alias, ib
			d.InPlace = true
		}
		p.Donated = append(p.Donated, d)
	}
	inputs := map[string]bool{}
	for _, in := range p.In {
		inputs[in.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		if !inputs[name] {
			return fmt.Errorf("lowering: there is no input %s of %s to donate", name, p.Name)
		}
	}
	return nil
}

// overwrites reports whether instruction i may write its result out over its argument in.
// Both are buffers owning memory.
func (p *Plan) overwrites(i, out, in int) bool {
	n := &p.Instrs[i]
	o := slices.IndexFunc(n.Out, func(b int) bool { return p.Root(b) == out })
	if o < 0 {
		return false
	}
	for a, b := range n.In {
		if p.Root(b) == in && !(n.over(o, a) && p.Bufs[b].like(&p.Bufs[out])) {
			return false // even if the result may lie within a larger argument
		}
	}
	return n.InPlace || n.Over != nil || n.Loop != nil
}

// over reports whether result o may alias argument a, if their types are the same: any
// result of an in-place instruction, the pairs of Over, and the carried values of a loop with all iterations
// working on one buffer.
func (in *Instr) over(o, a int) bool {
	if l := in.Loop; l != nil {
		return o < l.Op.Carry && a == l.Op.Consts+o && l.InPlace(o)
	}
	return in.InPlace || slices.Contains(in.Over, [2]int{o, a})
}

// mayCover reports whether result o, with buffer out, may alias argument a, with buffer
// arg.
func (in *Instr) mayCover(o int, out *Buffer, a int, arg *Buffer) bool {
	if in.Within && o == 0 && a == 0 {
		return out.Uneven == "" && arg.Uneven == "" && out.Type.Bytes() <= arg.Type.Bytes()
	}
	return in.over(o, a) && arg.like(out)
}

// assignMemory gives every temporary a place in the arena. It places the largest
// temporary first, and each at the lowest offset without an overlap with a temporary
// alive at the same time. If ctx ends, it returns its cause.
func (p *Plan) assignMemory(ctx context.Context) error {
	p.unplaced = false
	p.lifetimes()
	order := p.blocks()
	slices.SortStableFunc(order, func(a, b block) int { return cmp.Compare(b.bytes, a.bytes) })
	taken := newArena(len(p.Instrs) + 1) // a collective may be waited for at the end
	for _, x := range order {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		at := taken.room(x.def, x.last, padded(x.bytes))
		p.Arena = max(p.Arena, at+padded(x.bytes))
		for _, b := range x.bufs {
			p.Bufs[b].Offset = at
			at += padded(p.Bufs[b].Type.Bytes())
		}
	}
	return nil
}

// block is memory of the arena for a temporary, or for a group of consecutive ones.
type block struct {
	bufs      []int
	bytes     int64
	def, last int
}

// blocks returns the blocks needing memory in the arena.
func (p *Plan) blocks() []block {
	var list []block
	group := map[int]int{} // per group: its index in the list
	add := func(b int) {
		x := &p.Bufs[b]
		k, ok := group[x.Group]
		if x.Group == 0 || !ok {
			k, group[x.Group] = len(list), len(list)
			list = append(list, block{nil, 0, x.Def, x.Last})
		}
		g := &list[k]
		g.bufs, g.bytes = append(g.bufs, b), padded(g.bytes)+x.Type.Bytes()
		g.def, g.last = min(g.def, x.Def), max(g.last, x.Last)
	}
	for i := range p.Instrs {
		for _, b := range p.Instrs[i].In {
			if r := p.Root(b); len(p.Instrs[i].In) > 1 && p.Instrs[i].Communicates() && p.Bufs[r].Group != 0 {
				add(r)
			}
		}
	}
	for i, b := range p.Bufs {
		if b.Storage == Temp && b.Def >= 0 && b.Group == 0 {
			add(i)
		}
	}
	return list
}

// reuse is assignMemory, preceded by takeOver, which lets in-place instructions write
// their results over arguments that are not read afterwards. If this enlarges the arena,
// reuse undoes it. Results lie within larger arguments only if `within` is set.
func (p *Plan) reuse(ctx context.Context, within bool) error {
	q := *p
	q.Bufs = slices.Clone(p.Bufs)
	q.takeOver(within)
	if err := cmp.Or(q.assignMemory(ctx), p.assignMemory(ctx)); err != nil {
		return err
	}
	if q.Arena <= p.Arena {
		*p = q
	}
	return nil
}

// takeOver gives each temporary written by an in-place instruction the memory of an
// argument that is not read afterwards. If the instruction writes a result of the plan,
// the argument gets the memory of the result.
func (p *Plan) takeOver(within bool) {
	p.fillResults()
	p.lifetimes()
	for i := range p.Instrs {
		if p.Instrs[i].Within && !within {
			continue
		}
		free := p.readLast(i)
		for k, o := range p.Instrs[i].Out {
			if p.Bufs[o].Storage != Temp || p.Bufs[o].Def != i || p.Bufs[o].Group != 0 {
				continue
			}
			if r, ok := free.take(&p.Instrs[i], k, &p.Bufs[o]); ok {
				p.Bufs[r].Last = p.Bufs[o].Last
				p.Bufs[o].Storage, p.Bufs[o].Of = Alias, r
			}
		}
	}
}

// fillResults gives a temporary that is last read by an in-place instruction the memory
// of the plan's result written by the instruction.
func (p *Plan) fillResults() {
	p.lifetimes()
	for i := len(p.Instrs) - 1; i >= 0; i-- { // backwards, so that a series of such instructions shares one memory
		if p.Instrs[i].Within {
			continue // the argument may be larger than the result
		}
		free := p.readLast(i)
		for k, o := range p.Instrs[i].Out {
			root := p.Root(o)
			if p.Bufs[root].Storage != Output || p.Bufs[root].Def != i {
				continue
			}
			if r, ok := free.take(&p.Instrs[i], k, &p.Bufs[root]); ok && p.Bufs[r].Group == 0 {
				p.Bufs[r].Storage, p.Bufs[r].Last = Output, p.Bufs[root].Last
				p.Bufs[root].Storage, p.Bufs[root].Of = Alias, r
			}
		}
	}
	p.shorten()
}

// shorten makes every alias written by an instruction name the owner of its memory. An
// alias that no instruction writes is a view and names the viewed buffer (see Check).
func (p *Plan) shorten() {
	for i := range p.Instrs {
		for _, b := range p.Instrs[i].Out {
			root := p.Root(b)
			for b != root {
				b, p.Bufs[b].Of = p.Bufs[b].Of, root
			}
		}
	}
}

// freed lists the owners of temporary memory that an instruction is the last to touch and
// may overwrite, in the order of its arguments, each with the argument.
type freed []freedMemory

type freedMemory struct {
	root int
	as   *Buffer
	arg  int
}

// readLast returns the memory freed by instruction i; none if i is not in place.
func (p *Plan) readLast(i int) freed {
	in := &p.Instrs[i]
	if !in.InPlace && in.Over == nil && !in.Within && in.Loop == nil {
		return nil
	}
	var list freed
	at := map[int]int{} // per owner: its index in the list
	other := map[int]bool{p.zones(in): true}
	for n, b := range in.In {
		r := p.Root(b)
		if k, ok := at[r]; ok {
			other[r] = other[r] || in.Loop != nil || in.Over != nil || !p.Bufs[b].like(list[k].as)
		} else if a := &p.Bufs[r]; a.Storage == Temp && a.Last == i && a.Def < i {
			at[r] = len(list)
			list = append(list, freedMemory{r, &p.Bufs[b], n})
		}
	}
	return slices.DeleteFunc(list, func(f freedMemory) bool { return other[f.root] })
}

// take removes from f the first memory that the instruction may overwrite with its result
// o, with buffer b, and returns its owner. ok is false if there is none.
func (f *freed) take(in *Instr, o int, b *Buffer) (root int, ok bool) {
	k := slices.IndexFunc(*f, func(m freedMemory) bool { return in.mayCover(o, b, m.arg, m.as) })
	if k < 0 {
		return 0, false
	}
	root = (*f)[k].root
	*f = slices.Delete(*f, k, k+1)
	return root, true
}

// zones returns the owner of the buffer with the row counts of an instruction, -1 if the
// instruction has none.
func (p *Plan) zones(in *Instr) int {
	if in.Zones < 0 {
		return -1
	}
	return p.Root(in.Zones)
}

func padded(n int64) int64 { return (n + align - 1) / align * align }
