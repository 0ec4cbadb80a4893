package msl

// typeAt returns the number of tokens of the vector type starting at token i, 0 if there is none. A
// vector type is a type such as float4, a name that may stand for one, or vec<T, 4>.
func (r *rewriter) typeAt(i int) int {
	t := r.ts[min(i, len(r.ts)-1)]
	switch {
	case t.kind != ident:
		return 0
	case vector(t.text), r.named[t.text]:
		return 1
	case t.text == "vec" && r.text(i+1) == "<":
		if e := closing(r.ts, i+1); e > 0 {
			return e + 1 - i
		}
	}
	return 0
}

// operand reports whether the operand of a cast can start with t. With strict, a sign does not
// count: the name in the preceding parentheses may not be a type, and the sign may be an operator.
func operand(t token, strict bool) bool {
	switch t.text {
	case "(", "*":
		return true
	case "-", "!", "~", "&", "+":
		return !strict
	}
	return t.kind == ident || t.kind == number
}

// castable reports whether a cast can follow t.
func castable(t token) bool {
	if t.kind == ident {
		return t.text == "return" || t.text == "case" || t.text == "else"
	}
	return t.text != ">" && t.text != ")" && t.text != "]"
}

// cast rewrites (half4)x as (half4)(msl_cast<half4>)x. It adds a second cast rather
// than a call, so that the precedence of the operators does not change.
func (r *rewriter) cast(s scope, i int) int {
	if r.text(i) != "(" || !(castable(s.prev) || s.prev.text == ")") {
		return 0
	}
	n := r.typeAt(i + 1)
	if n == 0 || r.text(i+1+n) != ")" || !operand(r.ts[min(i+2+n, len(r.ts)-1)], r.named[r.text(i+1)]) {
		return 0
	}
	r.writeAll(i, i+2+n)
	r.out.WriteString("(msl_cast<")
	r.writeAll(i+1, i+1+n)
	r.out.WriteString(">)")
	return n + 2
}

// pointerCast rewrites (device half4*)p as (device half4*)(msl_pointer<device half4*>)p, so that a
// lint sees casts between address spaces.
func (r *rewriter) pointerCast(s scope, i int) int {
	if r.text(i) != "(" || !(castable(s.prev) || s.prev.text == ")") {
		return 0
	}
	e := closing(r.ts, i)
	if e < i+3 || r.text(e-1) != "*" || !operand(r.ts[min(e+1, len(r.ts)-1)], false) {
		return 0
	}
	space := false
	for k := i + 1; k < e-1; k++ {
		switch t := r.ts[k]; {
		case t.text == "device" || t.text == "constant" || t.text == "threadgroup" || t.text == "thread":
			space = true
		case t.text == "<":
			k = max(k, closing(r.ts, k))
		case t.kind != ident && t.text != "*" && t.text != "::":
			return 0
		}
	}
	if !space {
		return 0
	}
	r.writeAll(i, e+1)
	r.out.WriteString("(msl_pointer<")
	r.writeAll(i+1, e)
	r.out.WriteString(">)")
	return e + 1 - i
}

// construct rewrites float4(a, b) as msl_make<float4>(a, b).
func (r *rewriter) construct(s scope, i int) int {
	n := r.typeAt(i)
	if n == 0 || r.text(i+n) != "(" {
		return 0
	}
	if p := s.prev; p.kind == ident && !castable(p) || p.text == "::" || p.text == "." || p.text == "->" {
		return 0
	}
	if s.depth == 0 && !vector(r.text(i)) {
		return 0 // a declaration: T (name)
	}
	r.out.WriteString(r.ts[i].space + "msl_make<")
	first := r.ts[i]
	first.space = ""
	r.write(first)
	r.writeAll(i+1, i+n)
	r.out.WriteString(">")
	return n
}

// staticCast rewrites static_cast<float4>(x) as msl_make<float4>(x).
func (r *rewriter) staticCast(_ scope, i int) int {
	if r.text(i) != "static_cast" || r.text(i+1) != "<" {
		return 0
	}
	n := r.typeAt(i + 2)
	if n == 0 || r.text(i+2+n) != ">" {
		return 0
	}
	r.out.WriteString(r.ts[i].space + "msl_make<")
	r.writeAll(i+2, i+2+n)
	r.out.WriteString(">")
	return n + 3
}

func (r *rewriter) writeAll(from, to int) {
	for k := from; k < to; k++ {
		r.write(r.ts[k])
	}
}
