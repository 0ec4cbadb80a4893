package msl

import (
	"strconv"
	"strings"
)

// params returns the parameters of a kernel. ts is the parameter list without its parentheses.
// Buffers and threadgroup memory without an attribute are numbered in order, as in Metal.
func (r *rewriter) params(ts []token, f function) []Param {
	var out []Param
	buffers, memories, positions := 0, 0, 0
	for len(ts) > 0 {
		n := comma(ts)
		p, ok := r.param(ts[:n], f)
		ts = ts[min(n+1, len(ts)):]
		if !ok {
			continue
		}
		switch {
		case p.Source != Unknown:
		case strings.Contains(p.Type, "device") || strings.Contains(p.Type, "constant"):
			p.Source, p.Index = Buffer, buffers
		case strings.Contains(p.Type, "threadgroup"):
			p.Source, p.Index = Memory, memories
		default:
			r.fail(f.at, "parameter %s of kernel %s has no attribute that says what it is", p.Name, f.Name)
		}
		switch p.Source {
		case Buffer:
			buffers = max(buffers, p.Index+1)
		case Memory:
			memories = max(memories, p.Index+1)
		case InGrid, InGroup, Group, Size, FullSize, Groups, Grid:
			c := components(p.Type)
			if positions != 0 && c != positions {
				r.fail(f.at, "parameter %s of kernel %s has %d components and others have %d; positions and sizes need as many all", p.Name, f.Name, c, positions)
			}
			positions = c
		}
		for _, o := range out {
			if o.Source == p.Source && o.Index == p.Index && (p.Source == Buffer || p.Source == Memory) {
				r.fail(f.at, "parameters %s and %s of kernel %s have the same index %d", o.Name, p.Name, f.Name, p.Index)
			}
		}
		out = append(out, p)
	}
	return out
}

// comma returns the index of the first comma outside of brackets, len(ts) if there is none.
func comma(ts []token) int {
	for i := 0; i < len(ts); i++ {
		switch ts[i].text {
		case ",":
			return i
		case "(", "[", "[[", "{", "<":
			if e := closing(ts, i); e > 0 {
				i = e
			}
		}
	}
	return len(ts)
}

// param returns the parameter that ts declares. ok is false if ts declares none.
func (r *rewriter) param(ts []token, f function) (Param, bool) {
	var p Param
	var decl []token
	for i := 0; i < len(ts); i++ {
		if ts[i].text != "[[" {
			decl = append(decl, ts[i])
			continue
		}
		e := closing(ts, i)
		if e < 0 {
			break
		}
		for _, a := range attributes(ts[i+1 : e-1]) {
			s := source(a.name)
			if s == Unknown {
				continue
			}
			p.Source = s
			if s != Buffer && s != Memory {
				continue
			}
			n, err := strconv.Atoi(a.text)
			if err != nil || n < 0 || n >= maxArguments {
				r.fail(f.at, "%s(%s) of kernel %s, want a number from 0 to %d", a.name, a.text, f.Name, maxArguments-1)
				n = 0
			}
			p.Index = n
		}
		i = e
	}
	if len(decl) < 2 || decl[len(decl)-1].kind != ident {
		return p, false
	}
	p.Name = decl[len(decl)-1].text
	p.Type = join(decl[:len(decl)-1])
	return p, true
}

// maxArguments is the limit on a kernel's buffers, and on its pieces of threadgroup memory.
const maxArguments = 31

// attribute is one of the attributes between [[ and ]]: its name, and the text in its parentheses,
// "" if it has none.
type attribute struct{ name, text string }

func attributes(ts []token) []attribute {
	var out []attribute
	for i := 0; i < len(ts); i++ {
		if ts[i].kind != ident {
			continue
		}
		a := attribute{name: ts[i].text}
		if i+1 < len(ts) && ts[i+1].text == "(" {
			if e := closing(ts, i+1); e > 0 {
				a.text = join(ts[i+2 : e])
				i = e
			}
		}
		out = append(out, a)
	}
	return out
}
