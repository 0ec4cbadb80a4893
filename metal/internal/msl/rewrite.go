package msl

import (
	"fmt"
	"strings"
)

// Unit is a parsed source.
type Unit struct {
	Kernels   []Kernel
	Constants []Constant
	Source    string // the source as C++ for the shim's headers, line by line
	Tables    string // C++ for the tables exported by a library
	Instances string // C++ that is compiled but never run: every instance of a template, because Source has only the templates
}

// Rewrite reads a source and rewrites it as C++. It does not expand macros, so the
// preprocessor should run first. The error is an [*Error].
func Rewrite(src string) (*Unit, error) {
	r := &rewriter{ts: lex(src), named: map[string]bool{}}
	r.survey()
	kernels := r.kernels()
	r.rewrite()
	if r.err != nil {
		return nil, r.err
	}
	u := &Unit{Kernels: kernels, Constants: r.constants, Source: r.out.String()}
	u.Tables = r.tables()
	for i, in := range r.instances {
		u.Instances += fmt.Sprintf("static const auto msl_instance_%d = &%s;\n", i, in.expr)
	}
	return u, nil
}

// Reflect returns the kernels of a source. The declarations of the kernels must not
// depend on the preprocessor.
func Reflect(src string) ([]Kernel, error) {
	u, err := Rewrite(src)
	if err != nil {
		return nil, err
	}
	return u.Kernels, nil
}

// rewriter goes through a source twice: survey finds declarations, rewrite writes the result.
type rewriter struct {
	ts        []token
	named     map[string]bool // names that may stand for vector types
	bodies    [][2]int        // the tokens of the braces around each kernel's body
	removed   [][2]int        // the first and last tokens of the ranges removed from the result
	functions []function
	instances []instance
	constants []Constant
	out       strings.Builder
	err       *Error
}

// rewrite writes all tokens, replacing some of them. Each rule looks at the tokens from i on and
// returns the number of tokens it has handled, 0 if the rule does not apply.
func (r *rewriter) rewrite() {
	rules := []func(s scope, i int) int{r.remove, r.attribute, r.constant, r.storage, r.cast, r.pointerCast, r.construct, r.staticCast}
	var s scope
	for i := 0; i < len(r.ts); {
		r.check(i)
		n := 0
		for _, rule := range rules {
			if n = rule(s, i); n > 0 {
				break
			}
		}
		if n == 0 {
			r.write(r.ts[i])
			n = 1
		}
		for k := i; k < min(i+n, len(r.ts)); k++ {
			s.enter(r.ts[k])
			if k > i {
				r.check(k)
			}
		}
		i += n
	}
}

// scope is the context of a token in a source.
type scope struct {
	depth, paren int   // the numbers of open braces and open parentheses
	prev         token // the token before it
}

func (s *scope) enter(t token) {
	switch t.text {
	case "{":
		s.depth++
	case "}":
		s.depth--
	case "(":
		s.paren++
	case ")":
		s.paren--
	}
	s.prev = t
}

// write writes a token, adding the suffix implied by Metal to float literals.
func (r *rewriter) write(t token) {
	r.out.WriteString(t.space)
	r.out.WriteString(t.text)
	if t.kind == number && floatLiteral(t.text) {
		r.out.WriteByte('f')
	}
}

// remove removes explicit instantiations, which are in Tables and Instances.
func (r *rewriter) remove(_ scope, i int) int {
	for _, x := range r.removed {
		if x[0] == i {
			r.out.WriteString(spaces(r.ts[i : x[1]+1]))
			return x[1] + 1 - i
		}
	}
	return 0
}

// attribute removes attributes, because the shim's headers define their words as macros. [[kernel]]
// becomes the word kernel.
func (r *rewriter) attribute(_ scope, i int) int {
	if r.text(i) != "[[" {
		return 0
	}
	e := closing(r.ts, i)
	if e < 0 {
		return 0
	}
	r.out.WriteString(spaces(r.ts[i : e+1]))
	if r.text(i+1) == "kernel" {
		r.out.WriteString(" kernel")
	}
	return e + 1 - i
}

// spaces returns the space before ts, and the spaces between them containing newlines, which keeps
// line numbers right.
func spaces(ts []token) string {
	var b strings.Builder
	for i, t := range ts {
		if i == 0 || strings.Contains(t.space, "\n") {
			b.WriteString(t.space)
		}
	}
	return b.String()
}

// check records an error if token i is a construct that Metal lacks.
func (r *rewriter) check(i int) {
	t := r.ts[i]
	switch t.kind {
	case number:
		if strings.HasSuffix(strings.ToLower(t.text), "l") && strings.ContainsAny(t.text, ".") {
			r.fail(i, "%s is a long double; Metal has no double", t.text)
		}
	case ident:
		switch t.text {
		case "double", "double2", "double3", "double4":
			r.fail(i, "%s: Metal has no double; use float", t.text)
		case "goto", "new", "delete", "throw", "try", "catch", "virtual", "dynamic_cast", "typeid", "thread_local", "asm", "__asm__":
			r.fail(i, "%s: Metal does not have it", t.text)
		case "std":
			if r.text(i+1) == "::" {
				r.fail(i, "std: Metal has no C++ standard library; its own is namespace metal")
			}
		}
	}
}
