package lowering

import "slices"

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
	for i := range p.Instrs {
		if p.Instrs[i].Communicates() {
			h.collectives = append(h.collectives, i)
		}
	}
	for k := range h.collectives {
		if h.isUrgent(k) {
			h.urgent = append(h.urgent, h.collectives[k])
		}
	}
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
	p.number()
}

// hoister finds out where collectives go.
type hoister struct {
	*Plan
	*flow
	places []int // what place has found, plus 2
	// collectives are all of them, and urgent those that bring rows to experts or back, or
	// are needed before there is another collective.
	collectives, urgent []int
}

// target returns the instruction behind which collective i goes, -1 for the
// beginning, and whether it goes there wherever that instruction moves.
func (h *hoister) target(i int) (to int, moves bool) {
	to = -1
	if n := h.needs[i]; len(n) > 0 {
		to = n[len(n)-1]
	}
	if h.grows(i) {
		k, _ := slices.BinarySearch(h.collectives, i)
		if k > 0 && h.collectives[k-1] > to {
			return h.collectives[k-1], false
		}
	}
	if _, urgent := slices.BinarySearch(h.urgent, i); urgent {
		return to, true
	}
	made := -1
	for _, n := range h.needs[i] {
		made = max(made, h.place(n))
	}
	first := h.firstReader(i)
	for u, _ := slices.BinarySearch(h.urgent, to+1); u < len(h.urgent) && h.urgent[u] < first; u++ {
		if h.place(h.urgent[u]) >= made {
			return h.urgent[u], true
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

// isUrgent reports whether the k-th collective is urgent.
func (h *hoister) isUrgent(k int) bool {
	i := h.collectives[k]
	if h.Instrs[i].Travels {
		return true
	}
	first := h.firstReader(i)
	if k+1 < len(h.collectives) && h.collectives[k+1] < first {
		return false
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
