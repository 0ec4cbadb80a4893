package lowering

import "slices"

// extent is memory of a rank: bytes of the arena, or of an input or a result.
type extent struct {
	of       int // the buffer owning it, -1 for the arena
	from, to int64
}

// extents returns the memory of bufs. Memory that several of them share is listed once.
func (p *Plan) extents(bufs []int) []extent {
	var out []extent
	for _, r := range p.roots(bufs) {
		b := &p.Bufs[r]
		switch e := (extent{r, 0, b.Type.Bytes()}); {
		case b.Storage == Chunk, e.to == 0:
		case b.Storage == Temp:
			out = append(out, extent{-1, b.Offset, b.Offset + e.to})
		default:
			out = append(out, e)
		}
	}
	return out
}

// touched records the last instructions that touched memory. For each owner it has
// non-overlapping touches in the order of memory.
type touched map[int][]touch

// touch is memory with the numbers of the last instructions that read and wrote it, -1
// for none. Reads before the last write are forgotten, because anything that conflicts
// with them conflicts with the write as well.
type touch struct {
	from, to    int64
	read, wrote int
}

// within returns the range of touches overlapping e.
func (m touched) within(e extent) (spans []touch, lo, hi int) {
	spans = m[e.of]
	lo, _ = slices.BinarySearchFunc(spans, e.from+1, func(s touch, at int64) int {
		if s.to < at {
			return -1
		}
		return 1
	})
	for hi = lo; hi < len(spans) && spans[hi].from < e.to; hi++ {
	}
	return spans, lo, hi
}

// last returns the last instruction that wrote some of list or, if list is about to be
// written, that read some of it; -1 if there is none.
func (m touched) last(list []extent, write bool) int {
	last := -1
	for _, e := range list {
		spans, lo, hi := m.within(e)
		for _, s := range spans[lo:hi] {
			if last = max(last, s.wrote); write {
				last = max(last, s.read)
			}
		}
	}
	return last
}

// mark records that instruction i, which follows all instructions marked before, reads or
// writes list.
func (m touched) mark(i int, list []extent, write bool) {
	for _, e := range list {
		spans, lo, hi := m.within(e)
		var with []touch
		if lo < hi && spans[lo].from < e.from {
			before := spans[lo]
			before.to = e.from
			with = append(with, before)
		}
		if write {
			with = append(with, touch{e.from, e.to, -1, i})
		} else {
			at := e.from
			for _, s := range spans[lo:hi] {
				if s.from > at {
					with = append(with, touch{at, s.from, i, -1})
				}
				at = min(s.to, e.to)
				with = append(with, touch{max(s.from, e.from), at, i, s.wrote})
			}
			if at < e.to {
				with = append(with, touch{at, e.to, i, -1})
			}
		}
		if lo < hi && spans[hi-1].to > e.to {
			after := spans[hi-1]
			after.from = e.to
			with = append(with, after)
		}
		m[e.of] = slices.Replace(spans, lo, hi, with...)
	}
}

// meet reports whether an extent of a overlaps an extent of b.
func meet(a, b []extent) bool {
	return slices.ContainsFunc(a, func(x extent) bool {
		return slices.ContainsFunc(b, func(y extent) bool {
			return x.of == y.of && x.from < y.to && y.from < x.to
		})
	})
}
