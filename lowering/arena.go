package lowering

import "slices"

// arena records the bytes of the arena in use during each instruction. It is a binary
// tree over the instructions: finding free memory takes time proportional to the
// logarithm of their number, times the number of gaps inspected.
type arena struct {
	size int     // the number of leaves, one for each instruction: a power of two
	all  []spans // per node: memory in use during all instructions below it and not recorded in a node above
	some []spans // per node: memory in use during some or all instructions below it
}

func newArena(instrs int) *arena {
	a := &arena{size: 1}
	for a.size < instrs {
		a.size *= 2
	}
	a.all, a.some = make([]spans, 2*a.size), make([]spans, 2*a.size)
	return a
}

// room reserves bytes for the instructions from first to last, at the lowest offset that
// is free during all of them, and returns the offset.
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

// visit calls f for the highest nodes lying within [from, to), with within set, and for
// the nodes above them.
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

// spans are ranges of bytes in use, in ascending order, with gaps between them.
type spans []span

type span struct{ from, to int64 }

// after returns the index of the first span ending after at, or the number of spans if
// there is none.
func (s spans) after(at int64) int {
	i, _ := slices.BinarySearchFunc(s, at, func(x span, at int64) int {
		if x.to <= at {
			return -1
		}
		return 1
	})
	return i
}

// gap returns the first offset, from at on, with the given number of free bytes.
func (s spans) gap(at, bytes int64) int64 {
	for i := s.after(at); i < len(s) && s[i].from < at+bytes; i++ {
		at = s[i].to
	}
	return at
}

// with returns s with [from, to) in use as well. It writes to the memory of s.
func (s spans) with(from, to int64) spans {
	i := s.after(from - 1) // a span ending at from is extended
	j := i
	for ; j < len(s) && s[j].from <= to; j++ {
		from, to = min(from, s[j].from), max(to, s[j].to)
	}
	return slices.Replace(s, i, j, span{from, to})
}
