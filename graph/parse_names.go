package graph

import (
	"maps"
	"strconv"

	"github.com/gomoe/gomoe/internal/near"
)

// valueName reads the name of a value being defined.
func (p *parser) valueName(what string) token {
	n := p.quotable("the name of " + what)
	if line, ok := p.lines[n.text]; ok {
		p.failf(n.line, "value %s is defined already, on line %d; give each value its own name", clip(n.text), line)
	}
	p.lines[n.text] = n.line
	return n
}

func (p *parser) define(n token, v *Value) { p.values[n.text] = v }

// quotable reads the name of a value, which may be quoted. The token's text is the name.
func (p *parser) quotable(what string) token {
	switch {
	case p.tok.kind == tokString:
		n := p.next()
		name, err := strconv.Unquote(n.text)
		if err != nil || name == "" {
			p.failf(n.line, "found %s, want %s, which is not empty", n, what)
		}
		n.text = name
		return n
	case p.word("return"), p.word("program"):
		p.failf(p.tok.line, "%s is a word of the text form; as %s write it in quotes", p.tok.text, what)
	}
	return p.name(what)
}

// use reads the name of a value that has been defined above.
func (p *parser) use(what string) *Value {
	n := p.quotable("the name of " + what)
	v := p.values[n.text]
	if v == nil && p.is("(") {
		p.failf(n.line, "found %s(, want a value; calls do not nest, so give its result a name on a line above", clip(n.text))
	}
	if v == nil {
		p.failf(n.line, "value %s is not defined above%s", clip(n.text), near.Names(n.text, maps.Keys(p.values)))
	}
	return v
}

// scope reads the line giving a scope to the equations below it.
func (p *parser) scope() {
	p.next()
	p.tr.scope = ""
	if p.tok.kind == tokString {
		s := p.next()
		name, err := strconv.Unquote(s.text)
		if err == nil {
			err = checkScope(name)
		}
		if err != nil {
			p.failf(s.line, "%w", err)
		}
		p.tr.scope = name
	}
	p.endOfLine("behind the scope")
}
