package jinja

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/internal/quoted"
)

// arguments are the arguments of a call.
type arguments struct {
	values []expr
	names  []string
	named  []expr
	list   expr // *values
	dict   expr // **named
}

func (p *parser) arguments() arguments {
	var a arguments
	for first := true; !p.take(")"); first = false {
		if !first {
			p.want(",")
			if p.take(")") {
				break
			}
		}
		if p.now().kind == operator && p.take("**") {
			a.dict = p.expression()
			continue
		}
		if p.now().kind == operator && p.take("*") {
			a.list = p.expression()
			continue
		}
		if t := p.tokens[min(p.at+1, len(p.tokens)-1)]; p.now().kind == name && t.kind == operator && t.text == "=" {
			a.names = append(a.names, p.word())
			p.at++
			a.named = append(a.named, p.expression())
			continue
		}
		a.values = append(a.values, p.expression())
	}
	return a
}

func (a arguments) compute(r *run, s *scope) ([]any, *Dict) {
	named := NewDict()
	values := r.all(a.values, s)
	for i, n := range a.names {
		named.Set(n, a.named[i](r, s))
	}
	if a.list != nil {
		values = append(values, r.each(a.list(r, s))...)
	}
	if a.dict != nil {
		d, ok := a.dict(r, s).(*Dict)
		if !ok {
			r.fail("** of what is no dictionary")
		}
		named.Update(d)
	}
	return values, named
}

func (p *parser) call(of expr, line int) expr {
	a := p.arguments()
	return func(r *run, s *scope) any {
		f := of(r, s)
		values, named := a.compute(r, s)
		r.line = line
		return r.call(f, values, named)
	}
}

func (r *run) call(f any, values []any, named *Dict) any {
	c, ok := f.(callable)
	if o, isObject := f.(*object); isObject {
		c, ok = o.call, o.call != nil
	}
	if !ok {
		r.fail("%s is called, which is no function", r.typed(f))
	}
	if r.depth++; r.depth > maxDepth {
		r.fail("calls nest deeper than %d", maxDepth)
	}
	r.spend(1)
	v := c(r, values, named)
	r.depth--
	return v
}

// dotted parses a name that may contain dots.
func (p *parser) dotted() string {
	s := p.word()
	for p.now().kind == operator && p.take(".") {
		s += "." + p.word()
	}
	return s
}

// unknown records an unknown filter or test.
func (p *parser) unknown(kind, which string) {
	p.missing = append(p.missing, failure{p.now().line, fmt.Sprintf("there is no %s %s", kind, quoted.Text(which))})
}

// filters parses the filters and tests following a value.
func (p *parser) filters(v expr) expr {
	for {
		of, line := v, p.now().line
		switch {
		case p.now().kind == operator && p.take("|"):
			f := p.filter()
			v = func(r *run, s *scope) any {
				x := of(r, s)
				return f(r, s, x, line)
			}
		case p.now().kind == name && p.take("is"):
			v = p.test(of, line)
		case p.now().kind == operator && p.take("("):
			v = p.call(of, line)
		default:
			return v
		}
	}
}

// filter parses a filter's name and arguments.
func (p *parser) filter() func(r *run, s *scope, v any, line int) any {
	which := p.dotted()
	f, ok := filterNamed(which)
	if !ok {
		p.unknown("filter", which)
		f = func(r *run, _ any, _ []any, _ *Dict) any {
			r.fail("there is no filter %s", quoted.Text(which))
			return nil
		}
	}
	var a arguments
	if p.take("(") {
		a = p.arguments()
	}
	return func(r *run, s *scope, v any, line int) any {
		values, named := a.compute(r, s)
		r.line = line
		r.spend(1)
		return f(r, v, values, named)
	}
}

func (p *parser) test(of expr, line int) expr {
	not := p.take("not")
	which := p.dotted()
	f, ok := testNamed(which)
	if !ok {
		p.unknown("test", which)
		f = func(r *run, _ any, _ []any) bool {
			r.fail("there is no test %s", quoted.Text(which))
			return false
		}
	}
	var a arguments
	switch t := p.now(); {
	case p.take("("):
		a = p.arguments()
	case t.kind == number, t.kind == text, t.kind == operator && (t.text == "[" || t.text == "{"),
		t.kind == name && !slices.Contains([]string{"else", "or", "and", "is", "if", "in", "not"}, t.text):
		a.values = []expr{p.postfix(p.primary())}
	}
	return func(r *run, s *scope) any {
		v := of(r, s)
		values, _ := a.compute(r, s)
		r.line = line
		r.spend(1)
		return f(r, v, values) != not
	}
}
