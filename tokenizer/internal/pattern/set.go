package pattern

import (
	"slices"
	"strings"
	"sync"
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

// Word reports whether \w of Rust's regular expressions matches r: a letter, mark, decimal digit, connecting punctuation or joiner.
func Word(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}

// posix returns the runes of [:name:].
func posix(name string) (spans, bool) {
	switch name {
	case "punct":
		return named("PosixPunct")
	case "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "space", "upper", "word", "xdigit":
		return named(name)
	}
	return nil, false
}

// named returns the runes of the property \p{name}. As in Oniguruma, case, spaces, hyphens and underscores in the name
// do not matter.
func named(name string) (spans, bool) {
	key := loose(name)
	switch key {
	case "word":
		return wordRunes(), true
	case "space":
		return fromTable(unicode.White_Space), true
	case "alpha", "alphabetic":
		return tables(unicode.L, unicode.Nl, unicode.Other_Alphabetic), true
	case "alnum":
		return tables(unicode.L, unicode.Nl, unicode.Other_Alphabetic, unicode.Nd), true
	case "upper", "uppercase":
		return tables(unicode.Lu, unicode.Other_Uppercase), true
	case "lower", "lowercase":
		return tables(unicode.Ll, unicode.Other_Lowercase), true
	case "posixpunct":
		return tables(unicode.P, unicode.S), true
	case "blank":
		return tables(unicode.Zs).union(single('\t')), true
	case "graph":
		return tables(unicode.White_Space, unicode.Cc, unicode.Cn, unicode.Cs).negated(), true
	case "print":
		return tables(unicode.Zl, unicode.Zp, unicode.Cc, unicode.Cn, unicode.Cs).negated(), true
	case "assigned":
		return fromTable(unicode.Cn).negated(), true
	case "xdigit":
		return spans{{'0', '9'}, {'A', 'F'}, {'a', 'f'}}, true
	case "ascii":
		return spans{{0, 0x7f}}, true
	case "any":
		return spans{{0, unicode.MaxRune}}, true
	}
	t, ok := properties()[key]
	if !ok {
		return nil, false
	}
	return fromTable(t), true
}

// properties returns Unicode's categories, scripts and properties by the loose forms of their names.
var properties = sync.OnceValue(func() map[string]*unicode.RangeTable {
	all := map[string]*unicode.RangeTable{}
	for _, tables := range []map[string]*unicode.RangeTable{unicode.Properties, unicode.Scripts, unicode.Categories} {
		for name, t := range tables {
			all[loose(name)] = t
		}
	}
	for alias, name := range unicode.CategoryAliases {
		all[loose(alias)] = unicode.Categories[name]
	}
	return all
})

// loose returns the form of a property's name that is compared.
func loose(name string) string {
	return strings.NewReplacer(" ", "", "-", "", "_", "").Replace(strings.ToLower(name))
}

// outsideClass returns the runes of an escape outside of a class. There Oniguruma also counts the numbers ² ³ ¹ ¼ ½ ¾ as
// characters of words.
func outsideClass(s spans) spans {
	numbers := spans{{0xb2, 0xb3}, {0xb9, 0xb9}, {0xbc, 0xbe}}
	switch {
	case slices.Equal(s, wordRunes()):
		return s.union(numbers)
	case len(s) == len(wordRunes().negated()) && slices.Equal(s.negated(), wordRunes()):
		return s.intersection(numbers.negated())
	}
	return s
}

// wordRunes returns the runes of \w inside a class.
var wordRunes = sync.OnceValue(func() spans {
	return tables(unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic)
})

func tables(ts ...*unicode.RangeTable) spans {
	var out spans
	for _, t := range ts {
		out = append(out, fromTable(t)...)
	}
	return out.normal()
}
