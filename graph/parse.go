package graph

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/internal/near"
)

// Parse returns the last program of the text src, which is written in the form of
// Grammar. Its equations carry the positions of their lines in file, and Parse(file,
// p.String()) prints as p does.
//
// Primitives are looked up by name in lib, a list of prototypes. An equation's primitive
// is a copy of the prototype, unexported fields included; parameters that the text gives
// are set, all others are zero. The primitives of Structural are always known.
//
// Mistakes in the text, and mistakes that primitives find in their arguments, are
// returned as an *Error at the line of the text. If file is "", errors call it "text".
func Parse(file, src string, lib ...Primitive) (*Program, error) {
	progs, err := ParseAll(file, src, lib...)
	if err != nil {
		return nil, err
	}
	return progs[len(progs)-1], nil
}

// ParseAll is like Parse but returns all programs of the text in order. There
// is at least one.
func ParseAll(file, src string, lib ...Primitive) (progs []*Program, err error) {
	p := &parser{file: file, lex: lexer{src, 1}, lib: make(map[string]Primitive), progs: make(map[string]*Program)}
	if file == "" {
		p.file = "text"
	}
	known := Structural()
	for i, prim := range append(known, lib...) {
		if prim == nil {
			return nil, fmt.Errorf("graph: parse: primitive %d of the library is nil", i-len(known))
		}
		old, ok := p.lib[prim.Name()]
		if ok && reflect.TypeOf(old) != reflect.TypeOf(prim) {
			return nil, fmt.Errorf("graph: parse: primitive %s is given twice, as %T and as %T", prim.Name(), old, prim)
		}
		if !ok {
			p.lib[prim.Name()] = prim
		}
	}
	defer func() {
		if r := recover(); r != nil {
			be, ok := r.(buildError)
			if !ok {
				panic(r)
			}
			progs, err = nil, be.err
		}
	}()
	p.next()
	p.next()
	p.skipLines()
	for progs == nil || p.tok.kind != tokEOF {
		prog := p.program(false)
		p.next()
		if p.tok.kind != tokEOF {
			p.endOfLine("behind }")
		}
		p.progs[prog.Name] = prog
		progs = append(progs, prog)
		p.skipLines()
	}
	return progs, nil
}

// parser reads one file by recursive descent. Lists and the bodies of loops nest in the
// grammar. The Go type of a parameter determines the depth of its lists.
type parser struct {
	file  string
	lex   lexer
	tok   token // the next token to be read
	after token // the token after tok
	lib   map[string]Primitive
	progs map[string]*Program

	// For the program being read:
	tr     *Tracer
	values map[string]*Value
	lines  map[string]int // the definition of each value
	depth  int            // number of programs around the current one
}

// deepest is the largest nesting depth of bodies in a text.
const deepest = 100

func (p *parser) failf(line int, format string, args ...any) {
	panic(buildError{&Error{Pos: Pos{File: p.file, Line: line}, Err: fmt.Errorf(format, args...)}})
}

// next returns the current token, moving on to the one after it.
func (p *parser) next() token {
	t := p.tok
	p.tok = p.after
	if p.tok.kind == tokBad {
		p.failf(p.tok.line, "%s", p.tok.text)
	}
	p.after = p.lex.next()
	return t
}

func (p *parser) is(punct string) bool { return p.tok.kind == tokPunct && p.tok.text == punct }
func (p *parser) word(w string) bool   { return p.tok.kind == tokName && p.tok.text == w }

func (p *parser) want(what string) {
	p.failf(p.tok.line, "found %s, want %s", p.tok, what)
}

func (p *parser) punct(s, where string) {
	if !p.is(s) {
		p.want(s + " " + where)
	}
	p.next()
}

func (p *parser) name(what string) token {
	if p.tok.kind != tokName {
		p.want(what)
	}
	return p.next()
}

func (p *parser) endOfLine(where string) {
	if p.tok.kind != tokNewline {
		p.want("the end of the line " + where)
	}
	p.skipLines()
}

func (p *parser) skipLines() {
	for p.tok.kind == tokNewline {
		p.next()
	}
}

// list reads items with commas between them, up to the punctuation end. It does
// not read end itself.
func (p *parser) list(end string, item func(i int)) {
	for i := 0; !p.is(end); i++ {
		if i > 0 {
			p.punct(",", "or "+end)
		}
		item(i)
	}
}

// program reads a program up to its last }, which it does not read. The program of a
// body is not known to other programs, and may have any name.
func (p *parser) program(body bool) *Program {
	if !p.word("program") {
		what := "program"
		if len(p.progs) > 0 {
			what += " or the end of the file"
		}
		p.want(what)
	}
	p.next()
	name := p.name("the name of the program")
	if !body && p.progs[name.text] != nil {
		p.failf(name.line, "program %s is defined already; give each program of the file its own name", clip(name.text))
	}
	p.tr = &Tracer{prog: Program{Name: name.text}}
	p.values = make(map[string]*Value)
	p.lines = make(map[string]int)

	p.punct("(", "and the inputs of program "+clip(name.text))
	p.list(")", func(int) {
		n := p.valueName("an input")
		typ := p.typ("type of input " + clip(n.text))
		if err := typ.Check(); err != nil {
			p.failf(n.line, "input %s: %w", clip(n.text), err)
		}
		p.define(n, p.tr.Input(n.text, typ.DType, typ.Shape...))
	})
	p.next()
	p.punct("{", "behind the inputs")
	p.endOfLine("behind {")
	for !p.word("return") {
		if p.is("}") || p.tok.kind == tokEOF {
			p.want("a line that begins with return; program " + clip(name.text) + " has none")
		}
		if p.word("scope") && (p.after.kind == tokString || p.after.kind == tokNewline) {
			p.scope()
		} else {
			p.equation()
		}
	}
	p.next()
	for i := 0; p.tok.kind != tokNewline; i++ {
		if i > 0 {
			p.punct(",", "or the end of the line")
		}
		p.tr.prog.Out = append(p.tr.prog.Out, p.use("a result"))
	}
	p.skipLines()
	if !p.is("}") {
		p.want("} behind the line with return")
	}
	prog := p.tr.Program()
	p.tr.done = true
	return prog
}

// body reads the program of a body, which stands inside an equation.
func (p *parser) body() *Program {
	if p.depth == deepest {
		p.failf(p.tok.line, "bodies are nested in each other more than %d deep", deepest)
	}
	tr, values, lines := p.tr, p.values, p.lines
	p.depth++
	prog := p.program(true)
	p.depth--
	p.tr, p.values, p.lines = tr, values, lines
	return prog
}

func (p *parser) typ(what string) Type {
	n := p.name("the " + what)
	d, err := ParseDType(n.text)
	if err != nil {
		p.failf(n.line, "%s: %w", what, err)
	}
	t := Type{DType: d}
	p.punct("[", "and the sizes, [] for a scalar")
	p.list("]", func(int) {
		size, err := strconv.Atoi(p.tok.text)
		if p.tok.kind != tokNumber || errors.Is(err, strconv.ErrSyntax) {
			p.want("the size of a dimension")
		}
		if err != nil || size < 0 {
			p.failf(p.tok.line, "%s: size %s is negative or does not fit in an int", what, clip(p.tok.text))
		}
		t.Shape = append(t.Shape, size)
		p.next()
	})
	p.next()
	return t
}

func (p *parser) equation() {
	type binder struct {
		name  token
		typ   Type
		typed bool
	}
	var binders []binder
	line := p.tok.line
	if p.tok.kind != tokName && p.tok.kind != tokString {
		p.want("an equation or return")
	}
	if p.tok.kind == tokString || p.after.kind != tokPunct || p.after.text != "(" {
		p.list("=", func(int) {
			b := binder{name: p.valueName("a value")}
			if p.tok.kind == tokName {
				b.typ, b.typed = p.typ("type of "+clip(b.name.text)), true
			}
			binders = append(binders, b)
		})
		p.next()
	}
	name := p.name("the name of a primitive")
	proto := p.lib[name.text]
	if proto == nil && len(p.lib) == len(Structural()) { // those are always known
		p.failf(name.line, "primitive %s is unknown: Parse was given no primitives; pass it primitives.All()..., or call gomoe.Parse", clip(name.text))
	}
	if proto == nil {
		p.failf(name.line, "primitive %s is unknown%s", clip(name.text), cmp.Or(near.Names(name.text, maps.Keys(p.lib)), "; the reference lists them all"))
	}
	var args []*Value
	p.punct("(", "and the arguments of "+name.text)
	p.list(")", func(int) { args = append(args, p.use("an argument")) })
	p.next()
	prim := p.params(proto)
	p.endOfLine("behind the equation")

	pos := Pos{File: p.file, Line: line, Scope: p.tr.scope}
	var out []*Value
	p.tr.At(pos, func() { out = p.tr.Apply(prim, args...) })
	wrong := func(format string, a ...any) {
		panic(buildError{newError(pos, prim, types(args), fmt.Errorf(format, a...))})
	}
	if len(out) != len(binders) {
		wrong("%d results, but names for %d", len(out), len(binders))
	}
	for i, b := range binders {
		if b.typed && !b.typ.Equal(out[i].Type) {
			wrong("result %s is %s, but its line says %s", clip(b.name.text), out[i].Type, b.typ)
		}
		if !numbered(b.name.text) {
			out[i].Name = b.name.text
		}
		p.define(b.name, out[i])
	}
}

// params reads the parameters up to the end of the line, returning a copy of proto with
// these parameters.
func (p *parser) params(proto Primitive) Primitive {
	prim := reflect.New(structOf(proto).Type()).Elem()
	prim.Set(structOf(proto))
	fs := fields(prim)
	for _, f := range fs {
		f.value.SetZero()
	}
	seen := make(map[string]bool)
	for p.tok.kind == tokName {
		key := p.next()
		i := slices.IndexFunc(fs, func(f field) bool { return f.key == key.text })
		if i < 0 {
			p.failf(key.line, "%s has no parameter %s, it has %s", proto.Name(), clip(key.text), keys(fs))
		}
		if seen[key.text] {
			p.failf(key.line, "%s: parameter %s is given twice", proto.Name(), key.text)
		}
		seen[key.text] = true
		what := proto.Name() + ": parameter " + key.text
		if !p.is("=") {
			p.failf(p.tok.line, "%s: found %s, want = and its value", what, p.tok)
		}
		p.next()
		p.value(what, fs[i].value)
	}
	for _, f := range fs {
		if f.written && !seen[f.key] {
			p.failf(p.tok.line, "%s: parameter %s is missing; write %s= and its value, even if that is zero", proto.Name(), f.key, f.key)
		}
	}
	if reflect.TypeOf(proto).Kind() == reflect.Pointer {
		prim = prim.Addr()
	}
	return prim.Interface().(Primitive)
}

func keys(fs []field) string {
	if len(fs) == 0 {
		return "none"
	}
	var ks []string
	for _, f := range fs {
		ks = append(ks, f.key)
	}
	return strings.Join(ks, " ")
}

// value reads the value of a parameter into v. The Go type of v determines the kind of
// value expected.
func (p *parser) value(what string, v reflect.Value) {
	kind := kindName(v.Type(), false)
	if kind == "" {
		p.failf(p.tok.line, "%s is a %s, which no text can hold", what, v.Type())
	}
	tok := p.tok
	wrong := func() { p.failf(tok.line, "%s: found %s, want %s", what, tok, article(kind)) }
	// check reports err, which strconv returned for tok.
	check := func(err error) {
		switch {
		case errors.Is(err, strconv.ErrRange):
			p.failf(tok.line, "%s: %s does not fit in %s", what, clip(tok.text), article(v.Type().String()))
		case err != nil:
			wrong()
		}
	}
	switch {
	case v.Type() == dtypeType:
		d, err := ParseDType(tok.text)
		if tok.kind != tokName {
			wrong()
		} else if err != nil {
			p.failf(tok.line, "%s: %w", what, err)
		}
		v.SetUint(uint64(d))
	case v.Type() == programType:
		if tok.kind != tokName {
			wrong()
		}
		if p.word("program") {
			v.Set(reflect.ValueOf(p.body()))
			break
		}
		prog := p.progs[tok.text]
		if prog == nil {
			p.failf(tok.line, "%s: program %s is not defined above%s", what, clip(tok.text), near.Names(tok.text, maps.Keys(p.progs)))
		}
		v.Set(reflect.ValueOf(prog))
	case v.CanInt():
		if tok.kind != tokNumber {
			wrong()
		}
		n, err := strconv.ParseInt(tok.text, 10, v.Type().Bits())
		check(err)
		v.SetInt(n)
	case v.CanUint():
		if tok.kind != tokNumber {
			wrong()
		}
		n, err := strconv.ParseUint(tok.text, 10, v.Type().Bits())
		check(err)
		v.SetUint(n)
	case v.CanFloat():
		if tok.kind != tokNumber && !p.word("inf") && !p.word("nan") {
			wrong()
		}
		x, err := strconv.ParseFloat(tok.text, v.Type().Bits())
		check(err)
		v.SetFloat(x)
	case v.Kind() == reflect.Bool:
		if !p.word("true") && !p.word("false") {
			wrong()
		}
		v.SetBool(tok.text == "true")
	case v.Kind() == reflect.String:
		s, err := strconv.Unquote(tok.text)
		if tok.kind != tokString || err != nil {
			wrong()
		}
		v.SetString(s)
	default:
		if !p.is("[") {
			wrong()
		}
		p.next()
		p.list("]", func(int) {
			item := reflect.New(v.Type().Elem()).Elem()
			p.value(what, item)
			v.Set(reflect.Append(v, item))
		})
	}
	p.next()
}

// article returns noun, a kind or a Go type, preceded by "a" or "an". For a boolean it
// returns both possible values.
func article(noun string) string {
	if noun == "boolean" {
		return "true or false"
	}
	if strings.IndexByte("aeiou", noun[0]) >= 0 && !strings.HasPrefix(noun, "uint") {
		return "an " + noun
	}
	return "a " + noun
}
