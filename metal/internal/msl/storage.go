package msl

import "fmt"

// storage rewrites the threadgroup variables declared in a kernel's body as references. It rewrites
//
//	threadgroup float a[16], b[2][8];
//
// as
//
//	typedef float msl_type_a[16], msl_type_b[2][8]; MSL_STORAGE(msl_type_a, a); MSL_STORAGE(msl_type_b, b);
//
// because only the compiler knows how large a type is. An unsupported declaration is an error: otherwise
// each thread would silently get an array of its own.
func (r *rewriter) storage(s scope, i int) int {
	if r.text(i) != "threadgroup" || s.depth == 0 || s.paren != 0 {
		return 0
	}
	end := r.until(i, ";")
	list := r.declarators(i+1, end)
	pointers := 0
	for _, d := range list {
		if d.pointer {
			pointers++
		}
	}
	switch {
	case pointers == len(list):
		return 0 // threadgroup float* p = a;
	case !statement(s.prev):
		r.fail(i, "a threadgroup variable in the middle of a declaration; begin it with threadgroup")
		return 0
	case pointers > 0:
		r.fail(i, "pointers and threadgroup variables in one declaration; declare them apart")
		return 0
	case !r.inKernel(i):
		r.fail(i, "a threadgroup variable outside of a kernel; declare it in the kernel and pass a pointer")
		return 0
	}
	names := map[int]bool{}
	var tail string
	for _, d := range list {
		if d.name < 0 || d.initial {
			r.fail(i, "a threadgroup variable that is initialised or has no name; threadgroup memory has no initial value")
			return 0
		}
		names[d.name] = true
		n := r.ts[d.name].text
		tail += fmt.Sprintf("; MSL_STORAGE(msl_type_%s, %s)", n, n)
	}
	r.out.WriteString(r.ts[i].space + "typedef")
	for k := i + 1; k < end; k++ {
		t := r.ts[k]
		if names[k] {
			t.text = "msl_type_" + t.text
		}
		r.write(t)
	}
	r.out.WriteString(r.ts[end].space + tail + ";")
	return end + 1 - i
}

// statement reports whether a statement can begin after t.
func statement(t token) bool {
	switch t.text {
	case "{", "}", ";", ")", ":", "else":
		return true
	}
	return false
}

// declarator is one of the variables declared by a declaration.
type declarator struct {
	name             int // the index of the name's token, -1 if there is none
	pointer, initial bool
}

// declarators returns the variables declared by tokens [i, end). The tokens of the first one start with
// the type.
func (r *rewriter) declarators(i, end int) []declarator {
	out := []declarator{{name: -1}}
	for ; i < end; i++ {
		d := &out[len(out)-1]
		switch t := r.ts[i]; {
		case t.text == ",":
			out = append(out, declarator{name: -1})
		case t.text == "*" || t.text == "&":
			d.pointer = d.pointer || !d.initial
		case t.text == "=":
			d.initial = true
		case t.text == "{" || t.text == "(":
			d.initial = true
			i = max(i, closing(r.ts, i))
		case t.text == "[" || t.text == "[[" || t.text == "<":
			i = max(i, closing(r.ts, i))
		case t.kind == ident && !d.initial:
			d.name = i
		}
	}
	return out
}
