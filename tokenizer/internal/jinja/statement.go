package jinja

import (
	"slices"
	"strings"
)

// flow says how a part of a template ended.
type flow int

const (
	goOn flow = iota
	breakLoop
	nextItem
)

// stmt writes a part of a template.
type stmt func(r *run, s *scope, out *strings.Builder) flow

// scope is the variables of a part of a template.
type scope struct {
	values map[string]any
	up     *scope
}

func inside(s *scope) *scope { return &scope{map[string]any{}, s} }

func (r *run) lookup(s *scope, name string) any {
	r.spend(1)
	for ; s != nil; s = s.up {
		if v, ok := s.values[name]; ok {
			return v
		}
	}
	if f, ok := globalNamed(name); ok {
		return f
	}
	return undefined{name}
}

// write appends to a result, whose length is bounded.
func (r *run) write(out *strings.Builder, s string) {
	if r.spend(1 + len(s)/16); out.Len()+len(s) > maxOutput {
		r.fail("the text is longer than %d bytes", maxOutput)
	}
	out.WriteString(s)
}

// body parses up to one of the words in stop, which it takes, with the tag's
// beginning; it leaves what follows the word.
func (p *parser) body(stop ...string) (stmt, string) {
	defer p.deeper()()
	var all []stmt
	for {
		switch t := p.now(); t.kind {
		case end:
			if len(stop) > 0 {
				p.fail("the template ends, want {%% %s %%}", strings.Join(stop, " or "))
			}
			return sequence(all), ""
		case textPart:
			p.at++
			all = append(all, func(r *run, s *scope, out *strings.Builder) flow {
				r.write(out, t.text)
				return goOn
			})
		case printBegin:
			p.at++
			v := p.list()
			p.close()
			all = append(all, func(r *run, s *scope, out *strings.Builder) flow {
				x := v(r, s)
				r.line = t.line
				r.write(out, r.show(x))
				return goOn
			})
		case blockBegin:
			p.at++
			word := p.word()
			if slices.Contains(stop, word) {
				return sequence(all), word
			}
			st := p.statement(word)
			all = append(all, func(r *run, s *scope, out *strings.Builder) flow {
				r.line = t.line
				r.spend(1)
				return st(r, s, out)
			})
		default:
			p.fail("%q where text or a tag is wanted", t.text)
		}
	}
}

func sequence(all []stmt) stmt {
	return func(r *run, s *scope, out *strings.Builder) flow {
		for _, st := range all {
			if f := st(r, s, out); f != goOn {
				return f
			}
		}
		return goOn
	}
}

// close takes the end of a tag.
func (p *parser) close() {
	if p.now().kind != tagEnd {
		p.fail("%q, want the end of the tag", p.now().text)
	}
	p.at++
}

// list parses a value, or several with commas, which are a tuple.
func (p *parser) list() expr {
	v := p.expression()
	if !(p.now().kind == operator && p.now().text == ",") {
		return v
	}
	all := []expr{v}
	for p.take(",") {
		if p.now().kind == tagEnd {
			break
		}
		all = append(all, p.expression())
	}
	return func(r *run, s *scope) any { return &list{r.all(all, s), true} }
}

func (p *parser) statement(word string) stmt {
	switch word {
	case "if":
		return p.ifs()
	case "for":
		return p.fors()
	case "set":
		return p.set()
	case "macro":
		return p.macro()
	case "generation": // marks what the model writes
		p.close()
		b, _ := p.body("endgeneration")
		p.close()
		return func(r *run, s *scope, out *strings.Builder) flow {
			start := out.Len()
			f := b(r, s, out)
			if out == r.text && out.Len() > start {
				r.marked = append(r.marked, [2]int{start, out.Len()})
			}
			return f
		}
	case "filter":
		f := p.filter()
		line := p.now().line
		p.close()
		b, _ := p.body("endfilter")
		p.close()
		return func(r *run, s *scope, out *strings.Builder) flow {
			r.write(out, r.show(f(r, s, r.capture(b, inside(s)), line)))
			return goOn
		}
	case "with":
		var names []string
		var values []expr
		for p.now().kind != tagEnd {
			if names != nil {
				p.want(",")
			}
			names = append(names, p.word())
			p.want("=")
			values = append(values, p.expression())
		}
		p.close()
		b, _ := p.body("endwith")
		p.close()
		return func(r *run, s *scope, out *strings.Builder) flow {
			in := inside(s)
			for i, n := range names {
				in.values[n] = values[i](r, s)
			}
			return b(r, in, out)
		}
	case "break", "continue":
		if p.loops == 0 {
			p.fail("%s outside of a loop", word)
		}
		p.close()
		f := breakLoop
		if word == "continue" {
			f = nextItem
		}
		return func(*run, *scope, *strings.Builder) flow { return f }
	}
	p.at--
	p.fail("an unknown or misplaced statement %q, want if, for, set, macro, filter, with, break, continue, raw or generation", word)
	return nil
}

// capture returns the text that a part writes.
func (r *run) capture(b stmt, s *scope) string {
	var out strings.Builder
	b(r, s, &out)
	return out.String()
}

func (p *parser) ifs() stmt {
	defer p.deeper()()
	cond := p.list()
	p.close()
	yes, word := p.body("elif", "else", "endif")
	var no stmt
	switch word {
	case "elif":
		no = p.ifs()
	case "else":
		p.close()
		no, _ = p.body("endif")
		p.close()
	default:
		p.close()
	}
	return func(r *run, s *scope, out *strings.Builder) flow {
		switch {
		case truth(cond(r, s)):
			return yes(r, s, out)
		case no != nil:
			return no(r, s, out)
		}
		return goOn
	}
}

// targets parses the names that a loop or a set gives values to.
func (p *parser) targets() []string {
	parens := p.take("(")
	names := []string{p.word()}
	for p.take(",") {
		names = append(names, p.word())
	}
	if parens {
		p.want(")")
	}
	return names
}

// assign gives names their values: one value, or the items of it.
func (r *run) assign(s *scope, names []string, v any) {
	if len(names) == 1 {
		s.values[names[0]] = v
		return
	}
	items := r.each(v)
	if len(items) != len(names) {
		r.fail("%d values for %d names", len(items), len(names))
	}
	for i, n := range names {
		s.values[n] = items[i]
	}
}

func (p *parser) fors() stmt {
	names := p.targets()
	p.want("in")
	all := p.or() // an if behind it chooses items
	var only expr
	if p.take("if") {
		only = p.expression()
	}
	if p.take("recursive") {
		p.fail("a recursive loop, which is not supported; write a macro")
	}
	p.close()
	p.loops++
	b, word := p.body("else", "endfor")
	p.loops--
	var otherwise stmt
	if word == "else" {
		p.close()
		otherwise, _ = p.body("endfor")
	}
	p.close()
	return func(r *run, s *scope, out *strings.Builder) flow {
		items := r.each(all(r, s))
		if only != nil {
			items = slices.DeleteFunc(slices.Clone(items), func(x any) bool {
				in := inside(s)
				r.assign(in, names, x)
				return !truth(only(r, in))
			})
		}
		if len(items) == 0 && otherwise != nil {
			return otherwise(r, s, out)
		}
		for i, x := range items {
			r.spend(1)
			in := inside(s)
			in.values["loop"] = loop(items, i)
			r.assign(in, names, x)
			if b(r, in, out) == breakLoop {
				break
			}
		}
		return goOn
	}
}

// loop is what a loop's body knows of it.
func loop(items []any, i int) *Dict {
	n := int64(len(items))
	d := &Dict{values: map[string]any{
		"index": int64(i) + 1, "index0": int64(i), "revindex": n - int64(i), "revindex0": n - int64(i) - 1,
		"first": i == 0, "last": i == len(items)-1, "length": n,
		"cycle": callable(func(r *run, args []any, _ *Dict) any {
			if len(args) == 0 {
				r.fail("cycle without values")
			}
			return args[i%len(args)]
		}),
	}, space: true}
	if i > 0 {
		d.values["previtem"] = items[i-1]
	}
	if i+1 < len(items) {
		d.values["nextitem"] = items[i+1]
	}
	return d
}

func (p *parser) set() stmt {
	start := p.at
	first := p.word()
	if p.take(".") { // of a namespace
		key := p.word()
		p.want("=")
		v := p.list()
		p.close()
		return func(r *run, s *scope, _ *strings.Builder) flow {
			d, ok := r.lookup(s, first).(*Dict)
			if !ok || !d.space {
				r.fail("%s is no namespace, whose attributes could be set", first)
			}
			d.Set(key, v(r, s))
			return goOn
		}
	}
	p.at = start
	names := p.targets()
	if p.take("=") {
		v := p.list()
		p.close()
		return func(r *run, s *scope, _ *strings.Builder) flow {
			r.assign(s, names, v(r, s))
			return goOn
		}
	}
	var fs []func(r *run, s *scope, v any, line int) any
	for p.take("|") {
		fs = append(fs, p.filter())
	}
	line := p.now().line
	p.close()
	b, _ := p.body("endset")
	p.close()
	return func(r *run, s *scope, _ *strings.Builder) flow {
		v := any(r.capture(b, inside(s)))
		for _, f := range fs {
			v = f(r, s, v, line)
		}
		r.assign(s, names, v)
		return goOn
	}
}

// macro parses {% macro name(a, b=1) %}.
func (p *parser) macro() stmt {
	which := p.word()
	p.want("(")
	f := p.function()
	return func(r *run, s *scope, _ *strings.Builder) flow {
		s.values[which] = f(s)
		return goOn
	}
}

// function parses the parameters and the body of a macro, which sees the
// variables of where it is defined.
func (p *parser) function() func(s *scope) callable {
	var names []string
	var usual []expr
	for !p.take(")") {
		if names != nil {
			p.want(",")
		}
		names = append(names, p.word())
		if p.take("=") {
			usual = append(usual, p.expression())
		} else {
			usual = append(usual, nil)
		}
	}
	p.close()
	loops := p.loops
	p.loops = 0
	b, _ := p.body("endmacro")
	p.loops = loops
	p.close()
	return func(s *scope) callable {
		return func(r *run, args []any, named *Dict) any {
			in := inside(s)
			for i, n := range names {
				v, given := named.values[n]
				switch {
				case i < len(args):
					v = args[i]
				case given:
				case usual[i] != nil:
					v = usual[i](r, in)
				default:
					v = undefined{n}
				}
				in.values[n] = v
			}
			if len(args) > len(names) {
				r.fail("%d arguments, want at most %d", len(args), len(names))
			}
			for _, k := range named.keys {
				if !slices.Contains(names, k) {
					r.fail("an unknown argument %q", k)
				}
			}
			return r.capture(b, in)
		}
	}
}
