package msl

import (
	"strconv"
	"strings"
)

// constant rewrites a function constant, such as
//
//	constant bool bias [[function_constant(3)]];
//
// as a static variable. The tables hold the variable's address.
func (r *rewriter) constant(s scope, i int) int {
	if r.text(i) != "constant" || s.depth != 0 || s.paren != 0 {
		return 0
	}
	j := i + 1
	for r.ts[j].kind != end && !strings.Contains("; [[ = { (", r.ts[j].text) {
		j++
	}
	if r.text(j) != "[[" || j < i+3 {
		return 0
	}
	e := closing(r.ts, j)
	if e < 0 {
		return 0
	}
	for _, a := range attributes(r.ts[j+1 : e-1]) {
		if a.name != "function_constant" {
			continue
		}
		n, ok := sum(a.text)
		if !ok {
			r.fail(j, "function_constant(%s), want a number", a.text)
		}
		typ := r.ts[i+1 : j-1]
		if typ[0].text == "const" {
			typ = typ[1:]
		}
		c := Constant{Name: r.ts[j-1].text, Type: join(typ), Index: n}
		for _, o := range r.constants {
			if o.Index == c.Index {
				r.fail(j, "function constants %s and %s have the same index %d", o.Name, c.Name, n)
			}
		}
		r.constants = append(r.constants, c)
		r.out.WriteString(spaces(r.ts[i:j]) + "static " + c.Type + " " + c.Name)
		return e + 1 - i
	}
	return 0
}

// sum returns the value of a sum of numbers such as 600 + 3, as produced by macros.
func sum(text string) (int, bool) {
	total := 0
	for _, t := range strings.Split(text, "+") {
		n, err := strconv.Atoi(strings.TrimSpace(t))
		if err != nil || n < 0 || n > 65535 {
			return 0, false
		}
		total += n
	}
	return total, true
}
