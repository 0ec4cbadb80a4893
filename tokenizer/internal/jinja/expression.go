package jinja

import (
	"fmt"

	"github.com/gomoe/gomoe/internal/quoted"
)

// expr computes a value.
type expr func(r *run, s *scope) any

// parser compiles tokens to functions.
type parser struct {
	tokens []token
	at     int
	depth  int
	loops  int // number of enclosing loops
	blocks map[string]*block
	names  map[string]bool // variables that expressions read
	// missing are unknown filters and tests. Within a condition, they only fail when rendering reaches them.
	missing []failure
}

func (p *parser) now() token { return p.tokens[p.at] }

func (p *parser) fail(format string, a ...any) {
	panic(failure{p.now().line, fmt.Sprintf(format, a...)})
}

// take consumes the next token if it is the given operator or word.
func (p *parser) take(what string) bool {
	if t := p.now(); (t.kind == operator || t.kind == name) && t.text == what {
		p.at++
		return true
	}
	return false
}

func (p *parser) want(what string) {
	if !p.take(what) {
		p.fail("%s, want %s", quoted.Text(p.now().text), quoted.Text(what))
	}
}

func (p *parser) word() string {
	t := p.now()
	if t.kind != name {
		p.fail("%s, want a name", quoted.Text(t.text))
	}
	p.at++
	return t.text
}

// deeper bounds the nesting of templates.
func (p *parser) deeper() func() {
	if p.depth++; p.depth > maxDepth {
		p.fail("the template nests deeper than %d", maxDepth)
	}
	return func() { p.depth-- }
}

// expression parses a value, optionally followed by a condition.
func (p *parser) expression() expr {
	defer p.deeper()()
	missing := len(p.missing)
	v := p.or()
	if t := p.now(); t.kind == name && t.text == "if" {
		defer func() { p.missing = p.missing[:missing] }()
	}
	for p.take("if") {
		yes, cond := v, p.or()
		no := expr(func(*run, *scope) any { return undefined{"the value of an if without else"} })
		if p.take("else") {
			no = p.expression()
		}
		v = func(r *run, s *scope) any {
			if truth(cond(r, s)) {
				return yes(r, s)
			}
			return no(r, s)
		}
	}
	return v
}

func (p *parser) or() expr {
	v := p.and()
	for p.take("or") {
		a, b := v, p.and()
		v = func(r *run, s *scope) any {
			if x := a(r, s); truth(x) {
				return x
			}
			return b(r, s)
		}
	}
	return v
}

func (p *parser) and() expr {
	v := p.not()
	for p.take("and") {
		a, b := v, p.not()
		v = func(r *run, s *scope) any {
			if x := a(r, s); !truth(x) {
				return x
			}
			return b(r, s)
		}
	}
	return v
}

func (p *parser) not() expr {
	if p.take("not") {
		defer p.deeper()()
		v := p.not()
		return func(r *run, s *scope) any { return !truth(v(r, s)) }
	}
	return p.compare()
}

func (p *parser) compare() expr {
	first := p.sum()
	var ops []string
	var rest []expr
	for {
		op := ""
		for _, o := range []string{"==", "!=", "<=", ">=", "<", ">", "in"} {
			if op == "" && p.take(o) {
				op = o
			}
		}
		if t := p.tokens[min(p.at+1, len(p.tokens)-1)]; op == "" && p.now().text == "not" && t.kind == name && t.text == "in" {
			p.at += 2
			op = "not in"
		}
		if op == "" {
			break
		}
		ops, rest = append(ops, op), append(rest, p.sum())
	}
	if ops == nil {
		return first
	}
	line := p.now().line
	return func(r *run, s *scope) any {
		a := first(r, s)
		for i, op := range ops {
			b := rest[i](r, s)
			r.line = line
			if !r.compare(op, a, b) {
				return false
			}
			a = b
		}
		return true
	}
}

// binary parses left-associative operators of one precedence.
func (p *parser) binary(next func() expr, ops ...string) expr {
	v := next()
	for {
		op := ""
		for _, o := range ops {
			if op == "" && p.now().kind == operator && p.take(o) {
				op = o
			}
		}
		if op == "" {
			return v
		}
		a, b := v, next()
		line := p.now().line
		v = func(r *run, s *scope) any {
			x, y := a(r, s), b(r, s)
			r.line = line
			return r.arithmetic(op, x, y)
		}
	}
}

func (p *parser) sum() expr     { return p.binary(p.concat, "+", "-") }
func (p *parser) concat() expr  { return p.binary(p.product, "~") }
func (p *parser) product() expr { return p.binary(p.power, "//", "*", "/", "%") }
func (p *parser) power() expr   { return p.binary(func() expr { return p.unary(true) }, "**") }

func (p *parser) unary(filters bool) expr {
	defer p.deeper()()
	var v expr
	switch {
	case p.now().kind == operator && p.take("-"):
		of := p.unary(false)
		line := p.now().line
		v = func(r *run, s *scope) any {
			x := of(r, s)
			r.line = line
			return r.negative(x)
		}
	case p.now().kind == operator && p.take("+"):
		of := p.unary(false)
		v = func(r *run, s *scope) any { return r.arithmetic("+", int64(0), of(r, s)) }
	default:
		v = p.postfix(p.primary())
	}
	if filters {
		v = p.filters(v)
	}
	return v
}

func constant(v any) expr { return func(*run, *scope) any { return v } }

func (p *parser) primary() expr {
	t := p.now()
	p.at++
	switch {
	case t.kind == name:
		switch t.text {
		case "true", "True":
			return constant(true)
		case "false", "False":
			return constant(false)
		case "none", "None":
			return constant(nil)
		}
		p.names[t.text] = true
		return func(r *run, s *scope) any { return r.lookup(s, t.text) }
	case t.kind == number:
		return constant(t.value)
	case t.kind == text:
		s := t.value.(string)
		for p.now().kind == text {
			s += p.now().value.(string)
			p.at++
		}
		return constant(s)
	case t.kind == operator && t.text == "(":
		return p.tuple(")")
	case t.kind == operator && t.text == "[":
		items := p.items("]")
		return func(r *run, s *scope) any { return &list{items: r.all(items, s)} }
	case t.kind == operator && t.text == "{":
		return p.dict()
	}
	p.at--
	p.fail("%s, want a value", quoted.Text(t.text))
	return nil
}

// all evaluates expressions.
func (r *run) all(items []expr, s *scope) []any {
	r.spend(len(items))
	out := make([]any, len(items))
	for i, e := range items {
		out[i] = e(r, s)
	}
	return out
}

func (p *parser) items(stop string) []expr {
	var out []expr
	for !p.take(stop) {
		if out != nil {
			p.want(",")
			if p.take(stop) {
				break
			}
		}
		out = append(out, p.expression())
	}
	return out
}

// tuple parses the contents of parentheses: one value, or a tuple.
func (p *parser) tuple(stop string) expr {
	if p.take(stop) {
		return func(*run, *scope) any { return tuple() }
	}
	first := p.expression()
	if p.take(stop) {
		return first
	}
	p.want(",")
	rest := append([]expr{first}, p.items(stop)...)
	return func(r *run, s *scope) any { return tuple(r.all(rest, s)...) }
}

func (p *parser) dict() expr {
	var keys, values []expr
	for !p.take("}") {
		if keys != nil {
			p.want(",")
			if p.take("}") {
				break
			}
		}
		keys = append(keys, p.expression())
		p.want(":")
		values = append(values, p.expression())
	}
	return func(r *run, s *scope) any {
		d := NewDict()
		for i := range keys {
			k := keys[i](r, s)
			r.spend(1)
			d.put(k, r.key(k), values[i](r, s))
		}
		return d
	}
}

// key returns the hash of a dictionary key.
func (r *run) key(v any) any {
	h, ok := hash(v)
	if !ok {
		r.fail("%s cannot be a key of a dictionary", r.typed(v))
	}
	return h
}

func (p *parser) postfix(v expr) expr {
	for {
		of, line := v, p.now().line
		switch t := p.now(); {
		case t.kind != operator:
			return v
		case p.take("."):
			key := p.now().text
			if k := p.now().kind; k != name && k != number {
				p.fail("%s, want the name of an attribute", quoted.Text(key))
			}
			number := p.now().value // nil for a name
			p.at++
			v = func(r *run, s *scope) any {
				x := of(r, s)
				r.line = line
				if number != nil {
					return r.item(x, number)
				}
				return r.attribute(x, key)
			}
		case p.take("["):
			v = p.subscript(of, line)
		case p.take("("):
			v = p.call(of, line)
		default:
			return v
		}
	}
}

func (p *parser) subscript(of expr, line int) expr {
	var parts [3]expr
	n := 0
	slice := false
	for !p.take("]") {
		if p.take(":") {
			slice = true
			if n++; n > 2 {
				p.fail("a slice with more than three parts")
			}
			continue
		}
		if parts[n] != nil {
			p.fail("%s, want \"]\"", quoted.Text(p.now().text))
		}
		parts[n] = p.expression()
	}
	if !slice {
		if parts[0] == nil {
			p.fail("an empty subscript")
		}
		return func(r *run, s *scope) any {
			x, i := of(r, s), parts[0](r, s)
			r.line = line
			return r.item(x, i)
		}
	}
	return func(r *run, s *scope) any {
		x := of(r, s)
		var at [3]any
		for i, e := range parts {
			if e != nil {
				at[i] = e(r, s)
			}
		}
		r.line = line
		return r.slice(x, at)
	}
}
