package lowering

import "math"

// profile is the memory in use at every instruction. It is a binary tree: adding bytes to
// a range of instructions, and finding the maximum of a range, take time proportional to
// the logarithm of the number of instructions.
type profile struct {
	n    int
	size int     // a power of two, at least n
	top  []int64 // per node: the maximum below it, without the bytes added in nodes above
	all  []int64 // per node: the bytes added to all instructions below it
}

// newProfile returns a profile in which instruction i has the sum of change[0] to
// change[i].
func newProfile(change []int64) *profile {
	p := &profile{n: len(change), size: 1}
	for p.size < p.n {
		p.size *= 2
	}
	p.top, p.all = make([]int64, 2*p.size), make([]int64, 2*p.size)
	var sum int64
	for i, c := range change {
		sum += c
		p.top[p.size+i] = sum
	}
	for i := p.size - 1; i > 0; i-- {
		p.top[i] = max(p.top[2*i], p.top[2*i+1])
	}
	return p
}

// add adds bytes to the instructions [from, to).
func (p *profile) add(from, to int, bytes int64) {
	if from < to && bytes != 0 {
		p.visit(1, 0, p.size, from, to, bytes)
	}
}

// most returns the maximum over the instructions in [from, to). If the range is empty it
// returns a very small number.
func (p *profile) most(from, to int) int64 { return p.visit(1, 0, p.size, from, to, 0) }

// visit adds bytes to the instructions of [from, to) below a node, which covers [lo, hi),
// and returns their new maximum.
func (p *profile) visit(node, lo, hi, from, to int, bytes int64) int64 {
	switch {
	case to <= lo || hi <= from:
		return math.MinInt64 / 2
	case from <= lo && hi <= to:
		p.top[node] += bytes
		p.all[node] += bytes
		return p.top[node]
	}
	mid := (lo + hi) / 2
	most := max(p.visit(2*node, lo, mid, from, to, bytes), p.visit(2*node+1, mid, hi, from, to, bytes))
	p.top[node] = max(p.top[2*node], p.top[2*node+1]) + p.all[node]
	return most + p.all[node]
}
