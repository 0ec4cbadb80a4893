package jinja

import (
	"slices"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
)

// flow is the outcome of rendering a statement.
type flow int

const (
	goOn flow = iota
	breakLoop
	nextItem
)

// stmt renders a part of a template.
type stmt func(r *run, s *scope, out *strings.Builder) flow

// scope holds the variables of a part of a template.
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

// write appends to the output, bounding its length.
func (r *run) write(out *strings.Builder, s string) {
	if r.spend(1 + len(s)/16); out.Len()+len(s) > maxOutput {
		r.fail("the text is longer than %d bytes", maxOutput)
	}
	out.WriteString(s)
}

// body parses up to one of the words in stop. It consumes the beginning of that tag and the word, but not the rest.
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
				r.line = t.line
				x := v(r, s)
				r.line = t.line
				r.write(out, r.printed(x))
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
			p.fail("%s where text or a tag is wanted", quoted.Text(t.text))
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

// close consumes the end of a tag.
func (p *parser) close() {
	if p.now().kind != tagEnd {
		p.fail("%s, want the end of the tag", quoted.Text(p.now().text))
	}
	p.at++
}

// list parses a value, or several separated by commas, which form a tuple.
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
	return func(r *run, s *scope) any { return tuple(r.all(all, s)...) }
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
	case "call":
		return p.callBlock()
	case "block":
		return p.block()
	case "autoescape":
		on := p.expression()
		p.close()
		b, _ := p.body("endautoescape")
		p.close()
		return func(r *run, s *scope, out *strings.Builder) flow {
			before := r.escape
			r.escape = truth(on(r, s))
			f := b(r, inside(s), out)
			r.escape = before
			return f
		}
	case "generation": // marks text written by the model
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
		fs := []pipe{p.filter()}
		for p.now().kind == operator && p.take("|") {
			fs = append(fs, p.filter())
		}
		line := p.now().line
		p.close()
		b, _ := p.body("endfilter")
		p.close()
		return func(r *run, s *scope, out *strings.Builder) flow {
			v := any(r.capture(b, inside(s)))
			for _, f := range fs {
				v = f(r, s, v, line)
			}
			r.write(out, r.show(v))
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
	p.fail("an unknown or misplaced statement %s, want if, for, set, macro, call, block, filter, with, autoescape, break, continue, raw or generation", quoted.Text(word))
	return nil
}

// capture returns the text written by a part.
func (r *run) capture(b stmt, s *scope) string {
	var out strings.Builder
	b(r, s, &out)
	return out.String()
}

func (p *parser) ifs() stmt {
	defer p.deeper()()
	missing := len(p.missing)
	defer func() { p.missing = p.missing[:missing] }()
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
