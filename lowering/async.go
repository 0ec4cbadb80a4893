package lowering

import (
	"slices"

	"github.com/gomoe/gomoe/lowering/ops"
)

// flow has the dependencies between the instructions of a plan with buffers that are
// written once.
type flow struct {
	needs   [][]int // per instruction: the instructions with results that it reads, or that must precede it, ascending
	readers [][]int // per buffer owning memory: the instructions reading it
}

func (p *Plan) flow() *flow {
	f := &flow{make([][]int, len(p.Instrs)), make([][]int, len(p.Bufs))}
	maker := make([]int, len(p.Bufs))
	for b := range maker {
		maker[b] = -1
	}
	for i := range p.Instrs {
		need := func(b int) {
			if m := maker[p.Root(b)]; m >= 0 {
				f.needs[i] = append(f.needs[i], m)
			}
		}
		for _, b := range p.after(&p.Instrs[i]) {
			need(b)
		}
		p.eachRead(i, func(r int) {
			need(r)
			if n := len(f.readers[r]); n == 0 || f.readers[r][n-1] != i {
				f.readers[r] = append(f.readers[r], i)
			}
		})
		slices.Sort(f.needs[i])
		f.needs[i] = slices.Compact(f.needs[i])
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

// delay moves instructions on which an exchange of rows does not depend after the start
// of the exchange, so that they overlap with it. In the backward pass these are above all
// the gradients of the experts' matrices: the exchange returning the cotangents does not
// depend on them. Only instructions after the last collective on which the exchange
// depends move, and no instruction moves twice. Instructions that wait for a collective
// themselves are placed after the other moved ones.
func (p *Plan) delay() {
	n := len(p.Instrs)
	d := delayer{Plan: p, needs: p.flow().needs, at: make([]int, n), place: make([]int, n), moved: make([]bool, n), stays: make([]int, n), waits: make([]int, n)}
	for i := range d.at {
		d.at[i], d.place[i] = i, i
	}
	for c := range p.Instrs {
		if p.Instrs[c].Travels {
			d.behind(c)
		}
	}
	p.number()
}

// delayer is the state of delay. It identifies an instruction by its original number. Its
// marks for an exchange are the current place of the exchange, counted from 1.
type delayer struct {
	*Plan
	needs        [][]int // per instruction: the instructions with results that it reads
	at           []int   // per place: the instruction there
	place        []int   // per instruction: its place
	moved        []bool
	stays, waits []int // the exchange depending on it; the exchange after which it moves, waiting for a collective itself
}

// behind moves the instructions on which the exchange at place c does not depend after
// its start.
func (d *delayer) behind(c int) {
	mark := func(i int) {
		for _, n := range d.needs[i] {
			d.stays[n] = c + 1
		}
	}
	mark(d.at[c])
	from := c
	for ; from > 0; from-- {
		i := d.at[from-1]
		if d.stays[i] != c+1 {
			continue
		}
		if d.Instrs[from-1].Communicates() {
			break
		}
		mark(i)
	}
	for k := c - 1; k >= from; k-- {
		if i := d.at[k]; d.stays[i] == c+1 || d.moved[i] {
			d.stays[i] = c + 1
			mark(i)
		}
	}
	var order, later, last []int // of places
	for k := from; k < c; k++ {
		i := d.at[k]
		waits := slices.ContainsFunc(d.needs[i], func(n int) bool {
			return d.place[n] >= from && (d.waits[n] == c+1 || d.Instrs[d.place[n]].Communicates() && d.stays[n] != c+1)
		})
		if waits {
			d.waits[i] = c + 1
		}
		switch {
		case d.stays[i] == c+1:
			order = append(order, k)
			continue
		case waits:
			last = append(last, k)
		default:
			later = append(later, k)
		}
		d.moved[i] = true
	}
	order = slices.Concat(order, []int{c}, later, last)
	instrs, at := slices.Clone(d.Instrs[from:c+1]), slices.Clone(d.at[from:c+1])
	for k, was := range order {
		d.Instrs[from+k], d.at[from+k] = instrs[was-from], at[was-from]
		d.place[at[was-from]] = from + k
	}
}

// sumInPlace lets each all_sum overwrite its argument, if no other instruction reads the
// argument. Otherwise both occupy memory during the exchange.
func (p *Plan) sumInPlace() {
	f := p.flow()
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if !in.Communicates() || in.Op != ops.AllSum || len(in.In) > 1 {
			continue
		}
		from, to := p.Root(in.In[0]), p.Root(in.Out[0])
		src, dst := &p.Bufs[from], &p.Bufs[to]
		if src.Storage != Temp || len(f.readers[from]) > 1 || !src.like(dst) {
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

// waits determines when each collective is waited for: before the first kernel touching
// its results or overwrites its arguments. Collectives need not wait for each other,
// because they run in order. If that kernel comes directly after the collective, nothing
// overlaps with the collective and Wait is 0.
func (p *Plan) waits() {
	// Per buffer owning memory: the kernels touching it and the kernels writing it.
	touch, write := make([][]int, len(p.Bufs)), make([][]int, len(p.Bufs))
	for i := range p.Instrs {
		if p.Instrs[i].Communicates() {
			continue
		}
		p.eachRead(i, func(r int) { touch[r] = append(touch[r], i) })
		for _, b := range p.Instrs[i].Out {
			r := p.Root(b)
			touch[r], write[r] = append(touch[r], i), append(write[r], i)
		}
	}
	for c := range p.Instrs {
		in := &p.Instrs[c]
		if !in.Communicates() {
			continue
		}
		w := len(p.Instrs)
		behind := func(kernels [][]int, b int) {
			list := kernels[p.Root(b)]
			if k, _ := slices.BinarySearch(list, c); k < len(list) {
				w = min(w, list[k])
			}
		}
		for _, b := range in.Out {
			behind(touch, b)
		}
		for _, b := range in.In {
			behind(write, b)
		}
		if in.Wait = w; w == c+1 {
			in.Wait = 0
		}
	}
}
