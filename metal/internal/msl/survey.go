package msl

import (
	"strconv"
	"strings"
)

// vector reports whether name is the name of a vector type.
func vector(name string) bool {
	n := len(name) - 1
	if n < 1 || name[n] < '2' || name[n] > '4' {
		return false
	}
	switch name[:n] {
	case "half", "float", "bfloat", "bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong":
		return true
	}
	return false
}

// function is a kernel function as declared.
type function struct {
	Kernel
	at       int // the index of the name's token
	template bool
}

// instance is an explicit instantiation, under a name, of the kernel template base. expr is the
// template with its arguments.
type instance struct {
	name, base, expr string
	at               int
}

// survey finds declarations: kernels, instantiations, and the names that may stand for vector
// types, which are template parameters and aliases.
func (r *rewriter) survey() {
	depth, paren := 0, 0
	for i := 0; i < len(r.ts); i++ {
		switch r.ts[i].text {
		case "{":
			depth++
		case "}":
			depth--
		case "(":
			paren++
		case ")":
			paren--
		case "typename", "class":
			if i > 0 && (r.ts[i-1].text == "<" || r.ts[i-1].text == ",") && r.ts[i+1].kind == ident {
				r.named[r.ts[i+1].text] = true
			}
		case "using":
			r.alias(i+1, r.text(i+2) == "=", i+3)
		case "typedef":
			if e := r.until(i, ";"); e > i+1 {
				r.alias(e-1, true, i+1)
			}
		case "template":
			if depth == 0 && r.text(i+1) == "[[" {
				i = r.instance(i)
			}
		case "kernel":
			if paren == 0 && depth == 0 {
				r.kernel(i)
			}
		case "[[":
			if e := closing(r.ts, i); e > 0 && paren == 0 && r.text(i+1) == "kernel" {
				r.kernel(i)
			}
		}
	}
}

// text returns the text of token i, "" past the end.
func (r *rewriter) text(i int) string {
	if i < 0 || i >= len(r.ts) {
		return ""
	}
	return r.ts[i].text
}

// until returns the index of the first token with the given text, from i on and outside of
// brackets. If there is none, it returns the index of the end token.
func (r *rewriter) until(i int, text string) int {
	for ; i < len(r.ts)-1; i++ {
		switch t := r.ts[i].text; {
		case t == text:
			return i
		case t == "(" || t == "[" || t == "[[" || t == "{":
			if e := closing(r.ts, i); e > 0 {
				i = e
			}
		}
	}
	return len(r.ts) - 1
}

// alias records that the name at token name may stand for a vector type, if the type from token
// `from` to the next semicolon is a vector type.
func (r *rewriter) alias(name int, ok bool, from int) {
	if !ok || from >= len(r.ts) || r.ts[name].kind != ident {
		return
	}
	for j, e := from, r.until(from, ";"); j < e && j != name; j++ {
		switch t := r.ts[j].text; {
		case t == "*" || t == "&" || t == "(" || t == "[":
			return // a pointer, a function, an array
		case vector(t), t == "vec", r.named[t]:
			r.named[r.ts[name].text] = true
		}
	}
}

// kernel records the kernel function declared after token i.
func (r *rewriter) kernel(i int) {
	var f function
	j := i
	for r.text(j) != "void" {
		switch {
		case r.text(j) == "[[" && closing(r.ts, j) > 0:
			e := closing(r.ts, j)
			f.MaxThreads = max(f.MaxThreads, maxThreads(r.ts[j+1:e-1]))
			j = e + 1
		case r.text(j) == "kernel":
			j++
		default:
			return
		}
	}
	if r.ts[j+1].kind != ident || r.text(j+2) != "(" {
		return
	}
	e := closing(r.ts, j+2)
	if e < 0 {
		return
	}
	f.at, f.Name = j+1, r.ts[j+1].text
	f.template = i > 0 && r.ts[i-1].text == ">"
	if b := e + 1; r.text(b) == "{" {
		if end := closing(r.ts, b); end > 0 {
			r.bodies = append(r.bodies, [2]int{b, end})
		}
	}
	for _, o := range r.functions {
		if o.Name == f.Name {
			return // declared before
		}
	}
	f.Params = r.params(r.ts[j+3:e], f)
	r.functions = append(r.functions, f)
}

// maxThreads returns the n of [[max_total_threads_per_threadgroup(n)]], 0 without it.
func maxThreads(ts []token) int {
	for _, a := range attributes(ts) {
		if a.name == "max_total_threads_per_threadgroup" {
			n, err := strconv.Atoi(a.text)
			if err == nil && n > 0 && n <= 1024 {
				return n
			}
		}
	}
	return 0
}

// instance records the explicit instantiation starting at token i, the word "template", and returns
// the index of its semicolon.
func (r *rewriter) instance(i int) int {
	e := closing(r.ts, i+1)
	if e < 0 {
		return i
	}
	var name string
	for _, a := range attributes(r.ts[i+2 : e-1]) {
		if a.name == "host_name" {
			name = unquote(a.text)
		}
	}
	end := r.until(e+1, ";")
	d := r.ts[e+1 : end]
	if name == "" || len(d) == 0 {
		return end
	}
	if d[len(d)-1].text == ")" { // a parameter list: the template's own is as good
		o := opening(d, "(", ")")
		if o <= 0 {
			r.fail(i, "an instantiation of no kernel template")
			return end
		}
		d = d[:o]
	}
	base := len(d) - 1
	if d[base].text == ">" {
		base = opening(d, "<", ">") - 1
	}
	if base < 0 || d[base].kind != ident {
		r.fail(i, "an instantiation of no kernel template")
		return end
	}
	r.instances = append(r.instances, instance{name, d[base].text, join(d[base:]), i})
	r.removed = append(r.removed, [2]int{i, end})
	return end
}

// unquote returns the value of adjacent string literals, as produced by macros.
func unquote(text string) string {
	var b strings.Builder
	for i, s := range strings.Split(text, `"`) {
		if i%2 == 1 {
			b.WriteString(s)
		}
	}
	return b.String()
}

// inKernel reports whether token i is in a kernel's body.
func (r *rewriter) inKernel(i int) bool {
	for _, b := range r.bodies {
		if b[0] < i && i < b[1] {
			return true
		}
	}
	return false
}

// kernels returns the launchable kernels: functions that are not templates, and instantiations.
func (r *rewriter) kernels() []Kernel {
	var out []Kernel
	seen := map[string]bool{}
	add := func(k Kernel, at int) {
		if seen[k.Name] {
			r.fail(at, "kernel %s is declared twice", k.Name)
		}
		seen[k.Name] = true
		out = append(out, k)
	}
	for _, f := range r.functions {
		if !f.template {
			add(f.Kernel, f.at)
		}
	}
	for _, in := range r.instances {
		f := r.base(in)
		if f == nil {
			r.fail(in.at, "%s instantiates %s, which is no kernel template", in.name, in.base)
			continue
		}
		k := f.Kernel
		k.Name = in.name
		add(k, in.at)
	}
	return out
}

func (r *rewriter) base(in instance) *function {
	for i := range r.functions {
		if r.functions[i].Name == in.base {
			return &r.functions[i]
		}
	}
	return nil
}

// components returns the number of components of a type: 1 for types that are not vectors.
func components(typ string) int {
	if vector(strings.TrimPrefix(typ, "const ")) {
		return int(typ[len(typ)-1] - '0')
	}
	return 1
}
