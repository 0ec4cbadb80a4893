package graph

import (
	"reflect"
	"slices"
)

// Promote returns p with every float type replaced by d: in the types of its inputs, in
// parameters that are element types, and in the programs that parameters refer to,
// including the bodies of loops. Parameters with the tag graph:"wire" become zero. With a
// wider d the result computes p's function with less rounding, which lets tests check p's
// derivative. Integers, booleans, names and positions stay as they are.
//
// An error names the equation that does not accept the new type.
func Promote(p *Program, d DType) (*Program, error) {
	wide := func(t DType) DType {
		if t.IsFloat() {
			return d
		}
		return t
	}
	done := map[*Program]*Program{}
	// Callees first: each must be promoted before being referred to.
	progs, _ := callees(p)
	for _, q := range progs {
		r, err := Trace(q.Name, func(t *Tracer) []*Value {
			env := make(map[*Value]*Value)
			for _, v := range q.In {
				env[v] = t.Input(v.Name, wide(v.Type.DType), v.Type.Shape...)
			}
			for _, e := range q.Eqns {
				in := make([]*Value, len(e.In))
				for i, v := range e.In {
					in[i] = env[v]
				}
				t.At(e.Pos, func() {
					for i, v := range t.Apply(promoted(e.Prim, wide, done), in...) {
						v.Name = e.Out[i].Name
						env[e.Out[i]] = v
					}
				})
			}
			out := make([]*Value, len(q.Out))
			for i, v := range q.Out {
				out[i] = env[v]
			}
			return out
		})
		if err != nil {
			return nil, err
		}
		done[q] = r
	}
	return done[p], nil
}

// promoted returns a copy of p with the element types and programs in its
// parameters replaced.
func promoted(p Primitive, wide func(DType) DType, progs map[*Program]*Program) Primitive {
	c := reflect.New(structOf(p).Type()).Elem()
	c.Set(structOf(p))
	var change func(v reflect.Value)
	change = func(v reflect.Value) {
		switch {
		case v.Type() == dtypeType:
			v.SetUint(uint64(wide(DType(v.Uint()))))
		case v.Type() == programType:
			if q := progs[v.Interface().(*Program)]; q != nil {
				v.Set(reflect.ValueOf(q))
			}
		case v.Kind() == reflect.Slice && slices.Contains([]reflect.Type{dtypeType, programType}, leaf(v.Type())):
			list := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(list, v)
			v.Set(list)
			for i := range v.Len() {
				change(v.Index(i))
			}
		}
	}
	if c.Kind() == reflect.Struct {
		for _, f := range fields(c) {
			if f.wire {
				f.value.SetZero()
			}
			change(f.value)
		}
	}
	if reflect.TypeOf(p).Kind() == reflect.Pointer {
		c = c.Addr()
	}
	return c.Interface().(Primitive)
}

// leaf returns the type of the innermost elements of nested lists.
func leaf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}
