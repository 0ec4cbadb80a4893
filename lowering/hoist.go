package lowering

import "slices"

// hoist moves every collective up, directly after the instruction making its last
// argument. Sums of gradients thus start during the backward pass and not when the sums
// are used. Collectives that move to the same place keep their order.
//
// A rank's collectives run one after another. A collective with a result that is not
// needed soon would delay the next urgent one, so it is placed after the urgent one: the
// sums of a layer's gradients follow the exchange starting the backward pass of the
// experts below, which hides them.
//
// A collective allocating more memory for its results than its arguments release, such as
// an all_gather of a layer's parameters, moves up only as far as the original place of
// the collective before it. The parameters of the next layer then arrive while this layer
// computes, and the parameters of all layers are never in memory at once.
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
	// The collectives to place after each instruction: behind follows the instruction to
	// its new place, stood follows its original place. Index 0 is the plan's beginning,
	// index i+1 instruction i.
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

// hoister determines the new places of collectives.
type hoister struct {
	*Plan
	*flow
	places []int // results of place so far, plus 2; 0 for none
	// collectives are all collectives; urgent are the ones that send rows to experts or
	// back, and the ones with results that are read before the next collective.
	collectives, urgent []int
}

// target returns the instruction after which collective i is placed, -1 for the plan's
// beginning. If moves is true the collective follows that instruction to its new place;
// otherwise it follows the instruction's original place.
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

// place returns the kernel after which instruction i stands once all collectives have
// moved, -1 for the plan's beginning. Kernels do not move. The recursion ends, because a
// collective is placed after instructions preceding the readers of its results.
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

// firstReader returns the first instruction reading a result of instruction i, or the
// number of instructions if there is none.
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

// grows reports whether the results of collective i take more memory than its arguments
// that are not read after it.
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
