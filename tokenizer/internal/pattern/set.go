package pattern

import (
	"slices"
	"unicode"
)

// span is a range of runes, both ends included.
type span struct{ lo, hi rune }

// spans is a set of runes: sorted ranges that are neither overlapping nor adjacent.
type spans []span

func single(r rune) spans { return spans{{r, r}} }

// normal returns the normalised set of the runes in s, given ranges in any order.
func (s spans) normal() spans {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b span) int { return int(a.lo) - int(b.lo) })
	out := s[:0]
	for _, r := range s {
		if n := len(out); n > 0 && r.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, r.hi)
			continue
		}
		out = append(out, r)
	}
	return out
}

func (s spans) union(o spans) spans { return slices.Concat(s, o).normal() }

// negated returns the complement of s.
func (s spans) negated() spans {
	var out spans
	next := rune(0)
	for _, r := range s {
		if r.lo > next {
			out = append(out, span{next, r.lo - 1})
		}
		next = r.hi + 1
	}
	if next <= unicode.MaxRune {
		out = append(out, span{next, unicode.MaxRune})
	}
	return out
}

func (s spans) intersection(o spans) spans {
	return s.negated().union(o.negated()).negated()
}

// folded adds all runes that differ from a rune of s only by case.
func (s spans) folded() spans {
	out := slices.Clone(s)
	for _, r := range s {
		if r.hi-r.lo > 1<<12 { // letters of all scripts, containing both cases
			continue
		}
		for c := r.lo; c <= r.hi; c++ {
			for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
				out = append(out, span{f, f})
			}
		}
	}
	return out.normal()
}

// fromTable returns the runes of t.
func fromTable(t *unicode.RangeTable) spans {
	var out spans
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			out = append(out, span{lo, hi})
			return
		}
		for r := lo; r <= hi; r += stride {
			out = append(out, span{r, r})
		}
	}
	for _, r := range t.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range t.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	return out.normal()
}

// set is a set of runes with fast lookup: a bit for each rune of the basic plane, and ranges for the others.
type set struct {
	bits [1 << 10]uint64
	rest spans
}

func newSet(s spans) *set {
	out := &set{}
	for _, r := range s {
		for c := r.lo; c <= min(r.hi, 0xffff); c++ {
			out.bits[c>>6] |= 1 << (c & 63)
		}
		if r.hi > 0xffff {
			out.rest = append(out.rest, span{max(r.lo, 0x10000), r.hi})
		}
	}
	return out
}

func (s *set) has(r rune) bool {
	if r <= 0xffff {
		return s.bits[r>>6]&(1<<(r&63)) != 0
	}
	_, found := slices.BinarySearchFunc(s.rest, r, func(a span, r rune) int {
		switch {
		case a.hi < r:
			return -1
		case a.lo > r:
			return 1
		}
		return 0
	})
	return found
}

// Word reports whether \w matches r: a letter, mark, decimal digit, connecting punctuation or joiner.
func Word(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}

// named returns the runes of the property \p{name} or [:name:].
func named(name string) (spans, bool) {
	switch name {
	case "word", "Word", "w":
		return spans(nil).union(tables(unicode.L, unicode.M, unicode.Nd, unicode.Pc)), true
	case "space", "Space":
		return fromTable(unicode.White_Space), true
	case "digit", "Digit":
		return fromTable(unicode.Nd), true
	case "alpha", "Alpha", "Alphabetic":
		return tables(unicode.L, unicode.Nl, unicode.Other_Alphabetic), true
	case "alnum", "Alnum":
		return tables(unicode.L, unicode.Nl, unicode.Other_Alphabetic, unicode.Nd), true
	case "upper", "Upper", "Uppercase":
		return tables(unicode.Lu, unicode.Other_Uppercase), true
	case "lower", "Lower", "Lowercase":
		return tables(unicode.Ll, unicode.Other_Lowercase), true
	case "punct", "Punct":
		return tables(unicode.P).union(spans{{'$', '$'}, {'+', '+'}, {'<', '>'}, {'^', '^'}, {'`', '`'}, {'|', '|'}, {'~', '~'}}), true
	case "xdigit", "XDigit":
		return spans{{'0', '9'}, {'A', 'F'}, {'a', 'f'}}, true
	case "cntrl", "Cntrl":
		return fromTable(unicode.Cc), true
	case "ascii", "ASCII":
		return spans{{0, 0x7f}}, true
	case "Any":
		return spans{{0, unicode.MaxRune}}, true
	}
	if t, ok := unicode.Categories[name]; ok {
		return fromTable(t), true
	}
	if t, ok := unicode.Scripts[name]; ok {
		return fromTable(t), true
	}
	if t, ok := unicode.Properties[name]; ok {
		return fromTable(t), true
	}
	return nil, false
}

func tables(ts ...*unicode.RangeTable) spans {
	var out spans
	for _, t := range ts {
		out = append(out, fromTable(t)...)
	}
	return out.normal()
}
