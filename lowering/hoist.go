package lowering

// hoist moves every collective up to behind what makes its arguments, so that
// sums of gradients begin during the backward pass and not where they are used.
// Those that move to one place keep their order.
//
// Since a rank's collectives run one after another, one whose result nobody waits
// for soon would keep back the next that is needed at once. It goes behind that
// one: the sums of a layer's gradients behind the exchange that begins the backward
// pass of the experts below, which hides them.
//
// A collective that needs more memory for its results than ends with it, such as
// an all_gather of a layer's parameters, goes up no further than to behind where
// the collective before it stood: the next layer's parameters come while this
// one computes, and not all layers' at once.
func (p *Plan) hoist() {
	h := hoister{Plan: p, flow: p.flow(), places: make([]int, len(p.Instrs))}
	// Collectives by what they go behind: an instruction, wherever that goes, or
	// where it stood. Index 0 is the plan's beginning.
	behind, stood := make([][]int, len(p.Instrs)+1), make([][]int, len(p.Instrs)+1)
	for i := range p.Instrs {
		if !p.Instrs[i].Communicates() {
			continue
		}
		if to, moves := h.target(i); moves {
			behind[to+1] = append(behind[to+1], i)
		} else {
			stood[to+1] = append(stood[to+1], i)
		}
	}
	order := make([]Instr, 0, len(p.Instrs))
	var follow func(list []int)
	follow = func(list []int) {
		for _, c := range list {
			order = append(order, p.Instrs[c])
			follow(behind[c+1])
		}
	}
	follow(behind[0])
	for i := range p.Instrs {
		if !p.Instrs[i].Communicates() {
			order = append(order, p.Instrs[i])
			follow(behind[i+1])
		}
		follow(stood[i+1])
	}
	p.Instrs = order
}

// hoister finds out where collectives go.
type hoister struct {
	*Plan
	*flow
	places []int // what place has found, plus 2
}

// target returns the instruction behind which collective i goes, -1 for the
// beginning, and whether it goes there wherever that instruction moves.
func (h *hoister) target(i int) (to int, moves bool) {
	to = -1
	if n := h.needs[i]; len(n) > 0 {
		to = n[len(n)-1]
	}
	if h.grows(i) {
		for last := i - 1; last > to; last-- {
			if h.Instrs[last].Communicates() {
				return last, false
			}
		}
	}
	if h.urgent(i) {
		return to, true
	}
	made := -1
	for _, n := range h.needs[i] {
		made = max(made, h.place(n))
	}
	for u := to + 1; u < h.firstReader(i); u++ {
		if u != i && h.urgent(u) && h.place(u) >= made {
			return u, true
		}
	}
	return to, true
}

// place returns the kernel behind which i is once all have moved; a kernel stays.
// It ends, since whatever a collective goes behind comes before what reads it.
func (h *hoister) place(i int) int {
	if !h.Instrs[i].Communicates() {
		return i
	}
	if at := h.places[i]; at > 0 {
		return at - 2
	}
	at, moves := h.target(i)
	if moves && at >= 0 {
		at = h.place(at)
		for _, n := range h.needs[i] {
			at = max(at, h.place(n))
		}
	}
	h.places[i] = at + 2
	return at
}

// firstReader returns the first instruction that reads a result of i, their number
// if none does.
func (h *hoister) firstReader(i int) int {
	first := len(h.Instrs)
	for _, b := range h.Instrs[i].Out {
		if r := h.readers[h.Root(b)]; len(r) > 0 {
			first = min(first, r[0])
		}
	}
	return first
}

// urgent reports whether i is a collective that brings rows to experts or back, or
// is needed before there is another collective.
func (h *hoister) urgent(i int) bool {
	if in := &h.Instrs[i]; !in.Communicates() || in.Travels {
		return in.Communicates()
	}
	first := h.firstReader(i)
	for k := i + 1; k < first; k++ {
		if h.Instrs[k].Communicates() {
			return false
		}
	}
	return first < len(h.Instrs)
}

// grows reports whether the results of collective i take more memory than the
// arguments that nobody reads after it.
func (h *hoister) grows(i int) bool {
	var bytes int64
	for _, b := range h.Instrs[i].Out {
		bytes += h.Bufs[b].Type.Bytes()
	}
	h.eachRead(i, func(r int) {
		if h.Bufs[r].Storage == Temp && h.readers[r][len(h.readers[r])-1] == i {
			bytes -= h.Bufs[r].Type.Bytes()
		}
	})
	return bytes > 0
}
