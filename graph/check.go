package graph

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
)

// Check returns an error if p is not a program: an input is given twice, a value is used
// before its equation or defined by two equations, a result's Def or Index is wrong, a
// result's type differs from the type that the primitive infers, or an output is not
// defined. Check also checks the programs referenced by p's equations.
//
// Tests run Check after every pass. The error shows the failing equation with the
// equations before and after it, and their source lines.
func Check(p *Program) error {
	if p == nil {
		return errors.New("graph: check: program is nil")
	}
	c := checker{names: programNames(reachable(p)), state: make(map[*Program]int)}
	return c.program(p)
}

const (
	checking = iota + 1
	checked
)

type checker struct {
	names map[*Program]string
	state map[*Program]int
}

func (c *checker) program(p *Program) error {
	switch c.state[p] {
	case checking:
		return fmt.Errorf("graph: check: program %s refers to itself", p.Name)
	case checked:
		return nil
	}
	c.state[p] = checking
	for _, e := range p.Eqns {
		if e == nil || e.Prim == nil {
			continue
		}
		for _, q := range programs(e.Prim) {
			if err := c.program(q); err != nil {
				return err
			}
		}
	}

	wrong := func(format string, a ...any) error {
		return fmt.Errorf("graph: check: program %s: %w", p.Name, fmt.Errorf(format, a...))
	}
	if !identifier(p.Name) {
		return wrong("name %s, want a letter or _ and then letters, digits or _", quoted.Name(p.Name))
	}
	defined := make(map[*Value]bool)
	inputs := make(map[string]bool)
	for i, v := range p.In {
		switch {
		case v == nil:
			return wrong("input %d is nil", i)
		case defined[v], inputs[v.Name]:
			return wrong("input %d: %s is an input already", i, v.Name)
		case v.Name == "":
			return wrong("input %d: its name is empty", i)
		case v.Def != nil:
			return wrong("input %d: %s is the result of an equation", i, v.Name)
		case v.Index != i:
			return wrong("input %d: %s has index %d", i, v.Name, v.Index)
		case !valid(v.Type):
			return wrong("input %d: %s has type %s, want an element type and sizes whose bytes fit in 63 bits", i, v.Name, v.Type)
		}
		defined[v], inputs[v.Name] = true, true
	}
	for i, e := range p.Eqns {
		if err := c.equation(e, defined); err != nil {
			return c.at(p, i, err)
		}
	}
	for i, v := range p.Out {
		if v == nil {
			return wrong("output %d is nil", i)
		}
		if !defined[v] {
			return wrong("output %d: %s %s is neither an input nor a result of its equations", i, v.Name, v.Type)
		}
	}
	c.state[p] = checked
	return nil
}

// equation checks e, adding its results to those defined.
func (c *checker) equation(e *Eqn, defined map[*Value]bool) error {
	if e == nil || e.Prim == nil {
		return errors.New("the equation or its primitive is nil")
	}
	for i, v := range e.In {
		if v == nil {
			return fmt.Errorf("argument %d is nil", i)
		}
		if !defined[v] {
			return fmt.Errorf("argument %d is not defined above", i)
		}
	}
	want, err := infer(e.Prim, e.InTypes())
	if err != nil {
		return err
	}
	if len(e.Out) != len(want) {
		return fmt.Errorf("%d results, want %d", len(e.Out), len(want))
	}
	for i, v := range e.Out {
		switch {
		case v == nil:
			return fmt.Errorf("result %d is nil", i)
		case defined[v]:
			return fmt.Errorf("result %d is defined above", i)
		case v.Def != e:
			return fmt.Errorf("result %d has another equation as its definition", i)
		case v.Index != i:
			return fmt.Errorf("result %d has index %d", i, v.Index)
		case !v.Type.Equal(want[i]):
			return fmt.Errorf("result %d is %s, want %s", i, v.Type, want[i])
		case !valid(v.Type):
			return fmt.Errorf("result %d is %s, want an element type and sizes whose bytes fit in 63 bits", i, v.Type)
		}
		defined[v] = true
	}
	return nil
}

func valid(t Type) bool { return t.Check() == nil }

// at returns an error about equation i of p with the text of err, showing the equation
// among its neighbours.
func (c *checker) at(p *Program, i int, err error) error {
	var b strings.Builder
	fmt.Fprintf(&b, "program %s, equation %d of %d:", p.Name, i+1, len(p.Eqns))
	w := printer{opts: PrintOptions{Pos: true}, progs: c.names, values: p.Names()}
	for j := max(i-1, 0); j < min(i+2, len(p.Eqns)); j++ {
		w.buf = w.buf[:0]
		w.eqn(p.Eqns[j])
		mark := "   "
		if j == i {
			mark = " > "
		}
		fmt.Fprintf(&b, "\n%s%s", mark, w.buf)
	}
	failed := &Error{Err: fmt.Errorf("%w\n%s", err, b.String())}
	if e := p.Eqns[i]; e != nil && e.Prim != nil {
		failed.Pos, failed.Prim = e.Pos, e.Prim.Name()
		var args []string
		for _, v := range e.In {
			if v == nil {
				args = append(args, "nil")
			} else {
				args = append(args, v.Type.String())
			}
		}
		failed.Args = strings.Join(args, ", ")
	}
	return failed
}
