package graph

import (
	"strconv"
	"strings"
	"unicode"
)

// Shown returns a name in the form used by plans and reports. It is quoted if it is empty
// or contains blanks, commas, quotation marks or unprintable characters.
func Shown(name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == ',' || r == '"' || r == unicode.ReplacementChar
	}) {
		return strconv.Quote(name)
	}
	return name
}

// Quoted returns a name in the text form: an identifier as it is, any other name as a
// double-quoted Go string. The words return and program are quoted too, because they
// begin a line of the text form.
func Quoted(name string) string {
	if identifier(name) && name != "return" && name != "program" {
		return name
	}
	return strconv.Quote(name)
}

// Names returns the names that p's values are printed with. No two values have the same
// one, and the same program always gets the same names.
//
// An input or a result with a Name is printed with that name; Quoted is its form in a
// text. If several values share a name, the first keeps it, counting inputs before
// results, and the others are called name_1, name_2 and so on. Results without a Name are
// called v1, v2, ... in order; names already taken are skipped. Names of that form belong
// to the printer: a result with the Name v7 is treated as a result without a Name.
func (p *Program) Names() map[*Value]string {
	type named struct {
		v    *Value
		name string
	}
	names := make(map[*Value]string)
	taken := map[string]bool{"": true}
	claim := func(v *Value, name string) bool {
		if taken[name] {
			return false
		}
		names[v], taken[name] = name, true
		return true
	}

	// Names without a suffix come first, so that a name with a suffix never
	// takes a name that the user gave.
	var same []named
	var unnamed []*Value
	seen := make(map[*Value]bool)
	add := func(v *Value, input bool) {
		if v == nil || seen[v] {
			return
		}
		seen[v] = true
		if v.Name == "" || !input && numbered(v.Name) {
			unnamed = append(unnamed, v)
		} else if !claim(v, v.Name) {
			same = append(same, named{v, v.Name})
		}
	}
	for _, v := range p.In {
		add(v, true)
	}
	for _, e := range p.Eqns {
		if e != nil {
			for _, v := range e.Out {
				add(v, false)
			}
		}
	}

	next := make(map[string]int)
	for _, s := range same {
		for {
			next[s.name]++
			if claim(s.v, s.name+"_"+strconv.Itoa(next[s.name])) {
				break
			}
		}
	}
	n := 0
	for _, v := range unnamed {
		for {
			n++
			if claim(v, "v"+strconv.Itoa(n)) {
				break
			}
		}
	}
	return names
}

// numbered reports whether name has the form of the names that the printer
// makes: v1.
func numbered(name string) bool {
	if len(name) < 2 || name[0] != 'v' {
		return false
	}
	for _, r := range name[1:] {
		if r < '0' || r > '9' {
			return false
		}
	}
	return true
}

// sanitise returns name with _ for each character that an identifier cannot
// have, and with _ in front if it begins with a digit.
func sanitise(name string) string {
	if identifier(name) {
		return name
	}
	b := []byte{}
	for i, r := range name {
		if r >= '0' && r <= '9' && i == 0 {
			b = append(b, '_')
		}
		if r > 127 || !identifier("_"+string(r)) {
			r = '_'
		}
		b = append(b, byte(r))
	}
	return string(b)
}
