package graph

// Value is the result of an equation or an input of a program. It is assigned once and
// belongs to its tracer or program.
type Value struct {
	Type Type
	// Name is the name given by the user, "" if the printer chooses one.
	Name string
	// Def is the equation defining the value, nil for an input.
	Def *Eqn
	// Index is the value's place among the results of Def, or among the inputs.
	Index int

	tr *Tracer
}

// Tracer returns the tracer that made the value. After the trace has ended, an
// attempt to add an equation is an error at the line that adds it.
func (v *Value) Tracer() *Tracer { return v.tr }

// Rank returns the number of dimensions of v.
func (v *Value) Rank() int { return len(v.Type.Shape) }

// Dim returns the size of dimension i; a negative i counts from the end.
func (v *Value) Dim(i int) int {
	if i < 0 {
		i += len(v.Type.Shape)
	}
	return v.Type.Shape[i]
}

// Named gives v a name for the text form, returning v. If another value of the program
// has the same name, a number is printed after it.
func (v *Value) Named(name string) *Value {
	v.Name = name
	return v
}

// Eqn is one equation: Out = Prim(In).
type Eqn struct {
	Prim Primitive
	In   []*Value
	Out  []*Value
	Pos  Pos
}

// InTypes returns the types of the arguments.
func (e *Eqn) InTypes() []Type { return types(e.In) }

// OutTypes returns the types of the results.
func (e *Eqn) OutTypes() []Type { return types(e.Out) }

func types(vs []*Value) []Type {
	ts := make([]Type, len(vs))
	for i, v := range vs {
		ts[i] = v.Type
	}
	return ts
}

// Program is a function in single-assignment form: every value is defined
// before it is used, and once.
type Program struct {
	Name string
	In   []*Value
	Eqns []*Eqn
	Out  []*Value
}

// Input returns the input with this name, nil if there is none.
func (p *Program) Input(name string) *Value {
	for _, v := range p.In {
		if v.Name == name {
			return v
		}
	}
	return nil
}
