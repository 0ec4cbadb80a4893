package graph

import "strconv"

// PrintOptions change how Print writes a program. With the zero PrintOptions,
// Print writes the text form that Parse reads.
type PrintOptions struct {
	// Type, if not nil, returns the text that stands in place of the type where
	// a value is defined, such as the placed type f32[16@ep,8]. If it returns ""
	// the type is printed.
	Type func(*Value) string
	// Pos adds the source line of each equation as a comment: # moe.go:24.
	Pos bool

	unscoped bool // leave out the scopes
}

// String returns p's text form (see Grammar): the programs that p's equations
// refer to, each once and callees first, and then p.
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

// reachable returns p and the programs that it refers to, callees first.
func reachable(p *Program) []*Program {
	var order []*Program
	seen := make(map[*Program]bool)
	var visit func(*Program)
	visit = func(p *Program) {
		if seen[p] {
			return
		}
		seen[p] = true
		for _, e := range p.Eqns {
			if e == nil || e.Prim == nil {
				continue
			}
			for _, q := range programs(e.Prim) {
				visit(q)
			}
		}
		order = append(order, p)
	}
	visit(p)
	return order
}

// programNames gives each program its own name. The last program is the one
// that is being printed: it keeps its name.
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
}

func (w *printer) program(p *Program) {
	w.values = p.Names()
	w.buf = append(w.buf, "program "...)
	w.buf = append(w.buf, w.progs[p]...)
	w.buf = append(w.buf, '(')
	w.binders(p.In)
	w.buf = append(w.buf, ") {\n"...)
	scope := ""
	for _, e := range p.Eqns {
		if e != nil && e.Pos.Scope != scope && !w.opts.unscoped {
			scope = e.Pos.Scope
			w.scope(scope)
		}
		w.buf = append(w.buf, '\t')
		w.eqn(e)
		w.buf = append(w.buf, '\n')
	}
	w.buf = append(w.buf, "\treturn"...)
	if len(p.Out) > 0 {
		w.buf = append(w.buf, ' ')
		w.refs(p.Out)
	}
	w.buf = append(w.buf, "\n}\n"...)
}

// scope prints the line that gives the equations below it a scope.
func (w *printer) scope(name string) {
	w.buf = append(w.buf, "\tscope"...)
	if name != "" {
		w.buf = append(w.buf, ' ')
		w.buf = strconv.AppendQuote(w.buf, name)
	}
	w.buf = append(w.buf, '\n')
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
	w.buf = appendParams(w.buf, e.Prim, func(p *Program) string { return w.progs[p] })
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
