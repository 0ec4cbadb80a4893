package lowering

import "slices"

// arena is memory of which parts are taken for some instructions. It is a tree over the
// instructions, so that to find room takes the logarithm of their number times the gaps
// that are looked at.
type arena struct {
	size int     // a power of two: the instructions below the tree
	all  []spans // by node: what is taken during all instructions below it, but not above
	some []spans // by node: what is taken during some instructions below it, all of them too
}

func newArena(instrs int) *arena {
	a := &arena{size: 1}
	for a.size < instrs {
		a.size *= 2
	}
	a.all, a.some = make([]spans, 2*a.size), make([]spans, 2*a.size)
	return a
}

// room takes so many bytes for the instructions from first to last, at the lowest offset
// where they are free, which it returns.
func (a *arena) room(first, last int, bytes int64) int64 {
	if bytes == 0 {
		return 0
	}
	var taken []spans
	a.visit(1, 0, a.size, first, last+1, func(node int, within bool) {
		if s := a.all[node]; !within && len(s) > 0 {
			taken = append(taken, s)
		} else if s := a.some[node]; within && len(s) > 0 {
			taken = append(taken, s)
		}
	})
	at := int64(0)
	for again := true; again; {
		again = false
		for _, s := range taken {
			if to := s.gap(at, bytes); to > at {
				at, again = to, true
			}
		}
	}
	a.visit(1, 0, a.size, first, last+1, func(node int, within bool) {
		a.some[node] = a.some[node].with(at, at+bytes)
		if within {
			a.all[node] = a.all[node].with(at, at+bytes)
		}
	})
	return at
}

// visit calls f for the highest nodes within [from, to), and for those above them.
func (a *arena) visit(node, lo, hi, from, to int, f func(node int, within bool)) {
	if to <= lo || hi <= from {
		return
	}
	within := from <= lo && hi <= to
	f(node, within)
	if !within {
		mid := (lo + hi) / 2
		a.visit(2*node, lo, mid, from, to, f)
		a.visit(2*node+1, mid, hi, from, to, f)
	}
}

// spans are bytes that are taken, ascending and apart.
type spans []span

type span struct{ from, to int64 }

// after returns the first span that ends behind at, or their number.
func (s spans) after(at int64) int {
	i, _ := slices.BinarySearchFunc(s, at, func(x span, at int64) int {
		if x.to <= at {
			return -1
		}
		return 1
	})
	return i
}

// gap returns the first offset from at on with so many free bytes.
func (s spans) gap(at, bytes int64) int64 {
	for i := s.after(at); i < len(s) && s[i].from < at+bytes; i++ {
		at = s[i].to
	}
	return at
}

// with returns s with [from, to) taken, in the memory of s.
func (s spans) with(from, to int64) spans {
	i := s.after(from - 1) // one that ends there is made longer
	j := i
	for ; j < len(s) && s[j].from <= to; j++ {
		from, to = min(from, s[j].from), max(to, s[j].to)
	}
	return slices.Replace(s, i, j, span{from, to})
}
