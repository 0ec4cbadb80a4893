package lowering

import "slices"

// flow is who needs whom in a plan whose buffers are written once.
type flow struct {
	needs   [][]int // of each instruction: those whose results it reads, ascending
	readers [][]int // of each buffer that owns memory
}

func (p *Plan) flow() *flow {
	f := &flow{make([][]int, len(p.Instrs)), make([][]int, len(p.Bufs))}
	maker := make([]int, len(p.Bufs))
	for b := range maker {
		maker[b] = -1
	}
	for i := range p.Instrs {
		p.eachRead(i, func(r int) {
			if m := maker[r]; m >= 0 && !slices.Contains(f.needs[i], m) {
				f.needs[i] = append(f.needs[i], m)
			}
			if !slices.Contains(f.readers[r], i) {
				f.readers[r] = append(f.readers[r], i)
			}
		})
		slices.Sort(f.needs[i])
		for _, b := range p.Instrs[i].Out {
			maker[p.Root(b)] = i
		}
	}
	return f
}

// eachRead calls f with the owner of every buffer that instruction i reads.
func (p *Plan) eachRead(i int, f func(root int)) {
	in := &p.Instrs[i]
	for _, b := range in.In {
		f(p.Root(b))
	}
	if in.Zones >= 0 {
		f(p.Root(in.Zones))
	}
}

// ancestors marks what i needs, directly or not, from instruction `from` on.
func (f *flow) ancestors(i, from int) []bool {
	marked := make([]bool, i+1)
	marked[i] = true
	for j := i; j >= from; j-- {
		if !marked[j] {
			continue
		}
		for _, k := range f.needs[j] {
			marked[k] = true
		}
	}
	marked[i] = false
	return marked
}

// delay moves instructions behind the start of an exchange of rows that does not
// need them, so that they are computed meanwhile: in the backward pass above all
// the gradients of the experts' matrices, which the cotangents on their way home
// do without. Nothing moves further than from behind the last collective that
// the exchange needs, and nothing moves twice. Of what moves, that goes last which
// waits for a collective itself.
func (p *Plan) delay() {
	moved := make([]bool, len(p.Instrs))
	for c := range p.Instrs {
		if !p.Instrs[c].Travels {
			continue
		}
		f := p.flow()
		stays := f.ancestors(c, 0)
		from := 0
		for i := range c {
			if stays[i] && p.Instrs[i].Communicates() {
				from = i + 1
			}
		}
		for i := c - 1; i >= from; i-- {
			if stays[i] = stays[i] || moved[i]; stays[i] {
				for _, n := range f.needs[i] {
					stays[n] = true
				}
			}
		}
		var order, later, last []int
		waits := make([]bool, c) // for a collective among the later ones
		for i := from; i < c; i++ {
			waits[i] = slices.ContainsFunc(f.needs[i], func(n int) bool {
				return n >= from && (waits[n] || p.Instrs[n].Communicates() && !stays[n])
			})
			switch {
			case stays[i]:
				order = append(order, i)
			case waits[i]:
				last = append(last, i)
			default:
				later = append(later, i)
			}
		}
		order = slices.Concat(order, []int{c}, later, last)
		was, before := slices.Clone(moved), slices.Clone(p.Instrs)
		for k, i := range order {
			p.Instrs[from+k], moved[from+k] = before[i], was[i] || i < c && !stays[i]
		}
	}
}

// sumInPlace lets each all_sum write over what it sums, if nobody else reads that:
// while it is under way it needs both.
func (p *Plan) sumInPlace() {
	f := p.flow()
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if !in.Communicates() || in.Name != "all_sum" {
			continue
		}
		from, to := p.Root(in.In[0]), p.Root(in.Out[0])
		src, dst := &p.Bufs[from], &p.Bufs[to]
		if src.Storage != Temp || len(f.readers[from]) > 1 || !src.Type.Equal(dst.Type) {
			continue
		}
		switch dst.Storage {
		case Temp:
			dst.Storage, dst.Of = Alias, from
		case Output:
			src.Storage, src.Of = Alias, to
		}
	}
}

// waits sets where each collective is waited for: before the first kernel that
// reads its results. Collectives need not wait, since they run in order. One that
// is needed at once is not given company.
func (p *Plan) waits() {
	for c := range p.Instrs {
		in := &p.Instrs[c]
		if !in.Communicates() {
			continue
		}
		w := c + 1
		for w < len(p.Instrs) && (p.Instrs[w].Communicates() || !p.disturbs(&p.Instrs[w], in)) {
			w++
		}
		if in.Wait = w; w == c+1 {
			in.Wait = 0
		}
	}
}

// disturbs reports whether in touches what collective c writes, or writes what it
// reads.
func (p *Plan) disturbs(in, c *Instr) bool {
	owned := func(bufs []int, b int) bool {
		return slices.ContainsFunc(bufs, func(o int) bool { return p.Root(o) == p.Root(b) })
	}
	for _, b := range c.Out {
		if owned(in.In, b) || owned(in.Out, b) || in.Zones >= 0 && p.Root(in.Zones) == p.Root(b) {
			return true
		}
	}
	return slices.ContainsFunc(c.In, func(b int) bool { return owned(in.Out, b) })
}
