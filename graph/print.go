package graph

import (
	"slices"
	"strconv"
)

// PrintOptions change how Print writes a program. With the zero PrintOptions,
// Print writes the text form that Parse reads.
type PrintOptions struct {
	// Type, if not nil, returns the text printed in place of a value's type at its
	// definition, such as the placed type f32[16@ep,8]. If it returns "" the type is
	// printed.
	Type func(*Value) string
	// Body, if not nil, returns the program printed as the body of the loop e, and its
	// options. Without Body these are the loop's body and the options of the program.
	Body func(e *Eqn) (*Program, PrintOptions)
	// Pos adds the source line of each equation as a comment: # moe.go:24.
	Pos bool

	unscoped bool // leave out the scopes
}

// String returns p's text form (see Grammar): the programs that p's equations
// refer to, each once and callees first, and then p. The body of a loop stands inside
// its equation.
func (p *Program) String() string { return p.Print(PrintOptions{}) }

// Print is String with options.
func (p *Program) Print(opts PrintOptions) string {
	w := printer{opts: opts}
	progs := reachable(p)
	w.progs = programNames(progs)
	for i, q := range progs {
		if i > 0 {
			w.buf = append(w.buf, '\n')
		}
		w.program(q)
	}
	return string(w.buf)
}

// nested reports whether p's programs are printed inside its equation. Others are printed
// before the program, and the equation names them.
func nested(p Primitive) bool {
	_, ok := p.(ScanOp)
	return ok
}

// reachable returns p and the programs that it and the bodies in it refer to by name,
// callees first.
func reachable(p *Program) []*Program {
	all, bodies := callees(p)
	return slices.DeleteFunc(all, func(q *Program) bool { return bodies[q] })
}

// callees returns p and all programs that it refers to, callees first, and which of them
// are bodies only.
func callees(p *Program) (order []*Program, bodies map[*Program]bool) {
	bodies = make(map[*Program]bool)
	seen := make(map[*Program]bool)
	var visit func(p *Program, inside bool)
	visit = func(p *Program, inside bool) {
		if seen[p] {
			return
		}
		seen[p] = true
		for _, e := range p.Eqns {
			if e == nil || e.Prim == nil {
				continue
			}
			for _, q := range programs(e.Prim) {
				visit(q, nested(e.Prim))
			}
		}
		order, bodies[p] = append(order, p), inside
	}
	visit(p, false)
	return order, bodies
}

// programNames gives each program its own name. The last program, the one being printed,
// keeps its name.
func programNames(ps []*Program) map[*Program]string {
	names := make(map[*Program]string)
	taken := make(map[string]bool)
	for _, p := range ps {
		taken[sanitise(p.Name)] = true
	}
	used := make(map[string]bool)
	main := len(ps) - 1
	for _, p := range append([]*Program{ps[main]}, ps[:main]...) {
		name := sanitise(p.Name)
		if name == "" {
			name = "_"
		}
		if used[name] {
			base := name
			for n := 1; used[name] || taken[name]; n++ {
				name = base + "_" + strconv.Itoa(n)
			}
		}
		names[p], used[name] = name, true
	}
	return names
}

type printer struct {
	buf    []byte
	opts   PrintOptions
	progs  map[*Program]string
	values map[*Value]string
	depth  int // of the body being printed, 0 outside of one
}

func (w *printer) program(p *Program) {
	w.definition(p, w.progs[p])
	w.buf = append(w.buf, '\n')
}

// definition prints p under a name, without the end of its last line.
func (w *printer) definition(p *Program, name string) {
	w.values = p.Names()
	w.buf = append(w.buf, "program "...)
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, '(')
	w.binders(p.In)
	w.buf = append(w.buf, ") {"...)
	scope := ""
	for _, e := range p.Eqns {
		if e != nil && e.Pos.Scope != scope && !w.opts.unscoped {
			scope = e.Pos.Scope
			w.scope(scope)
		}
		w.line(1)
		w.eqn(e)
	}
	w.line(1)
	w.buf = append(w.buf, "return"...)
	if len(p.Out) > 0 {
		w.buf = append(w.buf, ' ')
		w.refs(p.Out)
	}
	w.line(0)
	w.buf = append(w.buf, '}')
}

// line begins a line with the indentation of the body being printed, and more.
func (w *printer) line(more int) {
	w.buf = append(w.buf, '\n')
	for range w.depth + more {
		w.buf = append(w.buf, '\t')
	}
}

// body returns the text of the body p of the equation e.
func (w *printer) body(e *Eqn, p *Program) string {
	in := printer{opts: w.opts, progs: w.progs, depth: w.depth + 1}
	if w.opts.Body != nil {
		p, in.opts = w.opts.Body(e)
	}
	name := sanitise(p.Name)
	if name == "" {
		name = "_"
	}
	in.definition(p, name)
	return string(in.buf)
}

// scope prints the line giving the equations below it a scope.
func (w *printer) scope(name string) {
	w.line(1)
	w.buf = append(w.buf, "scope"...)
	if name != "" {
		w.buf = append(w.buf, ' ')
		w.buf = strconv.AppendQuote(w.buf, name)
	}
}

// eqn prints an equation. It also prints broken ones, since Check shows them.
func (w *printer) eqn(e *Eqn) {
	if e == nil || e.Prim == nil {
		w.buf = append(w.buf, "<nil>"...)
		return
	}
	if len(e.Out) > 0 {
		w.binders(e.Out)
		w.buf = append(w.buf, " = "...)
	}
	w.buf = append(w.buf, e.Prim.Name()...)
	w.buf = append(w.buf, '(')
	w.refs(e.In)
	w.buf = append(w.buf, ')')
	w.buf = appendParams(w.buf, e.Prim, func(p *Program) string {
		if nested(e.Prim) {
			return w.body(e, p)
		}
		return w.progs[p]
	})
	if w.opts.Pos {
		w.buf = append(w.buf, " # "...)
		w.buf = append(w.buf, e.Pos.String()...)
	}
}

func (w *printer) binders(vs []*Value) {
	for i, v := range vs {
		if i > 0 {
			w.buf = append(w.buf, ", "...)
		}
		w.ref(v)
		if v == nil {
			continue
		}
		typ := ""
		if w.opts.Type != nil {
			typ = w.opts.Type(v)
		}
		if typ == "" {
			typ = v.Type.String()
		}
		w.buf = append(w.buf, ' ')
		w.buf = append(w.buf, typ...)
	}
}

func (w *printer) refs(vs []*Value) {
	for i, v := range vs {
		if i > 0 {
			w.buf = append(w.buf, ", "...)
		}
		w.ref(v)
	}
}

// ref prints a value's name, or <name> for a value that the program does not
// define.
func (w *printer) ref(v *Value) {
	switch name, ok := w.values[v]; {
	case v == nil:
		w.buf = append(w.buf, "<nil>"...)
	case ok:
		w.buf = append(w.buf, Quoted(name)...)
	default:
		w.buf = append(append(append(w.buf, '<'), v.Name...), '>')
	}
}
