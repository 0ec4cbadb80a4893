package lowering

import "slices"

// Join replaces several instructions of a plan by one with the same bits. It is called
// for every instruction i, in order. If i is the last of several instructions that can be
// joined, Join returns the others, the joined instruction, which takes the place of i,
// and true. Each of the others is dropped as well, unless its results are still read by
// the joined instruction or another one, directly or through a view, or returned by the
// plan. A join therefore need not ask whether it may drop an instruction, only whether
// joining pays if the instruction stays. Results of the others that the joined
// instruction writes are among its own results.
type Join func(p *Peephole, i int) (others []int, joined Instr, ok bool)

// Peephole is a Join's view of a plan: the instructions, and the maker and readers of
// each buffer. No memory has been assigned yet; every buffer is written once.
type Peephole struct {
	*Plan
	maker   []int   // per buffer: the instruction writing it, -1 for inputs
	readers [][]int // per buffer: the instructions reading it, in order
}

// join applies the rules of each round until none applies, and drops the replaced
// instructions.
func (p *Plan) join(rounds [][]Join) {
	for _, rules := range rounds {
		p.joinRound(rules)
	}
	p.sweep()
}

// sweep drops elementwise kernels with results that are no longer read: a joined
// instruction may read less than the instructions it replaces, like a dispatch with
// unused rows.
func (p *Plan) sweep() {
	read := make([]bool, len(p.Bufs))
	for _, out := range p.Out {
		read[p.Root(out.Buf)] = true
	}
	for i := len(p.Instrs) - 1; i >= 0; i-- {
		in := &p.Instrs[i]
		if in.Flat && !slices.ContainsFunc(in.Out, func(b int) bool { return read[p.Root(b)] }) {
			p.Instrs = slices.Delete(p.Instrs, i, i+1)
			continue
		}
		p.eachRead(i, func(r int) { read[r] = true })
	}
}

func (p *Plan) joinRound(rules []Join) {
	v := &Peephole{Plan: p, maker: make([]int, len(p.Bufs)), readers: make([][]int, len(p.Bufs))}
	for b := range v.maker {
		v.maker[b] = -1
	}
	for i := range p.Instrs {
		v.look(i)
	}
	gone := make([]bool, len(p.Instrs))
	for i := range p.Instrs {
		for again := true; again; {
			again = false
			for _, rule := range rules {
				others, joined, ok := rule(v, i)
				if !ok {
					continue
				}
				v.forget(i)
				p.Instrs[i] = joined
				v.look(i)
				for _, o := range v.unneeded(others, &joined) {
					gone[o] = true
					v.forget(o)
					p.Instrs[o] = Instr{Zones: -1}
				}
				again = true
			}
		}
	}
	kept := p.Instrs[:0]
	for i, in := range p.Instrs {
		if !gone[i] {
			kept = append(kept, in)
		}
	}
	p.Instrs = kept
}

// unneeded returns the others to drop once the joined instruction is in the plan: the
// ones with results that it writes itself, or that are no longer read.
func (v *Peephole) unneeded(others []int, joined *Instr) []int {
	written := v.roots(joined.Out)
	drop := slices.Clone(others)
	for again := true; again; {
		n := len(drop)
		drop = slices.DeleteFunc(drop, func(o int) bool {
			return slices.ContainsFunc(v.Instrs[o].Out, func(b int) bool {
				b = v.Root(b)
				return !slices.Contains(written, b) && (v.Bufs[b].Storage != Temp ||
					slices.ContainsFunc(v.readers[b], func(r int) bool { return !slices.Contains(drop, r) }))
			})
		})
		again = len(drop) < n
	}
	return drop
}

// look records the buffers owning memory made and read by instruction i.
func (v *Peephole) look(i int) {
	for _, b := range v.Instrs[i].Out {
		v.maker[v.Root(b)] = i
	}
	v.eachRead(i, func(r int) {
		k, _ := slices.BinarySearch(v.readers[r], i)
		v.readers[r] = slices.Insert(v.readers[r], k, i)
	})
}

// forget undoes look.
func (v *Peephole) forget(i int) {
	for _, b := range v.Instrs[i].Out {
		if r := v.Root(b); v.maker[r] == i { // a joined instruction may make it now
			v.maker[r] = -1
		}
	}
	v.eachRead(i, func(r int) {
		k, _ := slices.BinarySearch(v.readers[r], i)
		v.readers[r] = slices.Delete(v.readers[r], k, k+1)
	})
}

// Maker returns the instruction making b. It is -1 if b is an input, or if b has another
// type than the instruction's result.
func (v *Peephole) Maker(b int) int {
	i := v.maker[v.Root(b)]
	if i < 0 || !slices.ContainsFunc(v.Instrs[i].Out, func(o int) bool {
		return v.Root(o) == v.Root(b) && v.Bufs[o].like(&v.Bufs[b])
	}) {
		return -1
	}
	return i
}

// Last reports whether only instruction i reads b and b is not a result of the plan. If
// so, b need not be made once i is joined with the instruction making b.
func (v *Peephole) Last(b, i int) bool {
	return v.Bufs[v.Root(b)].Storage == Temp && !slices.ContainsFunc(v.readers[v.Root(b)], func(r int) bool { return r != i })
}

// Readers returns the instructions reading b, in order.
func (v *Peephole) Readers(b int) []int { return v.readers[v.Root(b)] }

// UnreadBefore reports whether no instruction before i reads b, so that i can make b.
func (v *Peephole) UnreadBefore(b, i int) bool {
	return !slices.ContainsFunc(v.readers[v.Root(b)], func(r int) bool { return r < i })
}
