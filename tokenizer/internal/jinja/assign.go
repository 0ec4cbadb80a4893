package jinja

import (
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
)

// target is the destination of an assignment by a loop or a set: a name, an attribute of a namespace, or several
// targets.
type target struct {
	name, attribute string
	all             []target
}

// targets parses one target, or several separated by commas.
func (p *parser) targets() target {
	first := p.target()
	if !(p.now().kind == operator && p.now().text == ",") {
		return first
	}
	all := []target{first}
	for p.take(",") {
		if t := p.now(); t.kind == operator && (t.text == ")" || t.text == "=") || t.kind == name && t.text == "in" {
			break
		}
		all = append(all, p.target())
	}
	return target{all: all}
}

func (p *parser) target() target {
	if p.now().kind == operator && p.take("(") {
		defer p.deeper()()
		t := p.targets()
		p.want(")")
		return t
	}
	t := target{name: p.word()}
	if p.now().kind == operator && p.take(".") {
		t.attribute = p.word()
	}
	return t
}

// assign assigns a value to a target, unpacking it for several targets.
func (r *run) assign(s *scope, t target, v any) {
	switch {
	case t.all != nil:
		items := r.each(v)
		if len(items) != len(t.all) {
			r.fail("%d values for %d names", len(items), len(t.all))
		}
		for i := range items {
			r.assign(s, t.all[i], items[i])
		}
	case t.attribute != "":
		d, ok := r.lookup(s, t.name).(*Dict)
		if !ok || !d.space {
			r.fail("%s is no namespace, whose attributes could be set", t.name)
		}
		r.private(t.attribute)
		d.Set(t.attribute, v)
	default:
		s.values[t.name] = v
	}
}

// private fails for a name not permitted in a namespace.
func (r *run) private(name string) {
	if strings.HasPrefix(name, "_") {
		r.fail("a namespace cannot have an attribute %s that begins with an underscore", quoted.Text(name))
	}
}

// pipe is a filter with its arguments.
type pipe func(r *run, s *scope, v any, line int) any

func (p *parser) set() stmt {
	to := p.targets()
	if p.take("=") {
		v := p.list()
		p.close()
		return func(r *run, s *scope, _ *strings.Builder) flow {
			r.assign(s, to, v(r, s))
			return goOn
		}
	}
	var fs []pipe
	for p.take("|") {
		fs = append(fs, p.filter())
	}
	line := p.now().line
	p.close()
	b, _ := p.body("endset")
	p.close()
	return func(r *run, s *scope, _ *strings.Builder) flow {
		v := r.captured(b, inside(s))
		for _, f := range fs {
			v = f(r, s, v, line)
		}
		r.assign(s, to, v)
		return goOn
	}
}
