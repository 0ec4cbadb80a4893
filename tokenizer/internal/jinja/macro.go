package jinja

import (
	"slices"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
)

// function holds the parameters and the body of a macro.
type function struct {
	name           string
	names          []string
	usual          []expr
	body           stmt
	caller         bool // the body uses caller, varargs or kwargs
	values, others bool
}

// macro parses {% macro name(a, b=1) %}.
func (p *parser) macro() stmt {
	which := p.word()
	p.want("(")
	f := p.function(which, "endmacro")
	return func(r *run, s *scope, _ *strings.Builder) flow {
		s.values[which] = f.in(s)
		return goOn
	}
}

// callBlock parses {% call(a, b) f(x) %}; f may call the body as caller.
func (p *parser) callBlock() stmt {
	at := p.at
	if p.take("(") {
		for depth := 1; depth > 0; p.at++ {
			switch t := p.now(); {
			case t.kind == end || t.kind == tagEnd:
				p.fail("call without parentheses that close")
			case t.kind == operator && t.text == "(":
				depth++
			case t.kind == operator && t.text == ")":
				depth--
			}
		}
	}
	called := p.postfixCall()
	after := p.at
	f := &function{}
	if p.tokens[at].kind == operator && p.tokens[at].text == "(" {
		p.at = at + 1
		p.parameters(f)
		p.at = after
	}
	p.functionBody(f, "endcall")
	return func(r *run, s *scope, out *strings.Builder) flow {
		r.write(out, r.printed(called(r, s, f.in(s))))
		return goOn
	}
}

// postfixCall parses a call, which receives caller as an additional argument.
func (p *parser) postfixCall() func(r *run, s *scope, caller any) any {
	line := p.now().line
	v := p.primary()
	for {
		of := v
		switch {
		case p.now().kind == operator && p.take("."):
			key := p.word()
			v = func(r *run, s *scope) any { return r.attribute(of(r, s), key) }
		case p.now().kind == operator && p.take("("):
			a := p.arguments()
			if p.now().kind != tagEnd {
				v = func(r *run, s *scope) any {
					values, named := a.compute(r, s)
					return r.call(of(r, s), values, named)
				}
				continue
			}
			return func(r *run, s *scope, caller any) any {
				values, named := a.compute(r, s)
				named.Set("caller", caller)
				r.line = line
				return r.call(of(r, s), values, named)
			}
		default:
			p.fail("%s, want the call of a macro", quoted.Text(p.now().text))
		}
	}
}

func (p *parser) parameters(f *function) {
	for !p.take(")") {
		if f.names != nil {
			p.want(",")
			if p.take(")") {
				break
			}
		}
		f.names = append(f.names, p.word())
		if p.take("=") {
			f.usual = append(f.usual, p.expression())
		} else {
			f.usual = append(f.usual, nil)
		}
	}
}

// function parses the parameters and the body of a macro.
func (p *parser) function(name, stop string) *function {
	f := &function{name: name}
	p.parameters(f)
	p.functionBody(f, stop)
	return f
}

func (p *parser) functionBody(f *function, stop string) {
	p.close()
	loops := p.loops
	p.loops = 0
	start := p.at
	f.body, _ = p.body(stop)
	for _, t := range p.tokens[start:p.at] {
		if t.kind == name {
			f.caller, f.values, f.others = f.caller || t.text == "caller", f.values || t.text == "varargs", f.others || t.text == "kwargs"
		}
	}
	p.loops = loops
	p.close()
}

// in returns a macro that closes over the variables of its definition.
func (f *function) in(s *scope) *object {
	return &object{
		call: func(r *run, args []any, named *Dict) any { return f.run(r, s, args, named) },
		attributes: func(name string) any {
			switch name {
			case "name":
				return f.name
			case "arguments":
				var all []any
				for _, n := range f.names {
					all = append(all, n)
				}
				return tuple(all...)
			case "caller":
				return f.caller
			case "catch_varargs":
				return f.values
			case "catch_kwargs":
				return f.others
			}
			return nil
		},
	}
}

func (f *function) run(r *run, s *scope, args []any, named *Dict) any {
	in := inside(s)
	for i, n := range f.names {
		v, given := named.values[n]
		switch {
		case i < len(args) && given:
			r.fail("two values for the argument %s", quoted.Text(n))
		case i < len(args):
			v = args[i]
		case given:
		case f.usual[i] != nil:
			v = f.usual[i](r, in)
		default:
			v = undefined{n}
		}
		in.values[n] = v
	}
	more, others := args[min(len(args), len(f.names)):], NewDict()
	for _, k := range named.keys {
		if k == "caller" && !slices.Contains(f.names, "caller") {
			if !f.caller {
				r.fail("a call block for the macro %s, which calls no caller", quoted.Text(f.name))
			}
			in.values["caller"] = named.at(k)
		} else if n, _ := k.(string); !slices.Contains(f.names, n) {
			others.Set(n, named.at(k))
		}
	}
	if _, ok := in.values["caller"]; f.caller && !ok {
		in.values["caller"] = undefined{"no caller is defined"}
	}
	switch {
	case len(more) > 0 && !f.values:
		r.fail("%d arguments, want at most %d", len(args), len(f.names))
	case len(others.keys) > 0 && !f.others:
		r.fail("an unknown argument %q", others.keys[0])
	}
	in.values["varargs"], in.values["kwargs"] = tuple(more...), others
	return r.captured(f.body, in)
}

// block is a named part of a template.
type block struct{ body stmt }

// block parses {% block name %}, which is rendered in place and by self.name().
func (p *parser) block() stmt {
	which := p.word()
	if p.blocks[which] != nil {
		p.fail("a second block %s", quoted.Text(which))
	}
	b := &block{}
	p.blocks[which] = b
	scoped := p.take("scoped")
	p.take("required")
	scoped = scoped || p.take("scoped")
	p.close()
	loops := p.loops
	p.loops = 0
	b.body, _ = p.body("endblock")
	p.loops = loops
	if t := p.now(); t.kind == name && t.text == which {
		p.at++
	}
	p.close()
	return func(r *run, s *scope, out *strings.Builder) flow {
		for !scoped && s.up != nil { // it sees variables defined outside of loops and macros
			s = s.up
		}
		b.body(r, inside(s), out)
		return goOn
	}
}

// self exposes the blocks of a template as functions.
func (r *run) self(blocks map[string]*block, root *scope) any {
	return &object{attributes: func(name string) any {
		b := blocks[name]
		if b == nil {
			return nil
		}
		return callable(func(r *run, _ []any, _ *Dict) any { return r.captured(b.body, inside(root)) })
	}}
}
