package graph

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
)

// Param is one static parameter of a primitive, as the text form writes it.
type Param struct {
	Key  string // the field's name in snake case: LHSContract is lhs_contract
	Kind string // "integer", "list of integers", ...; "" for a Go type that the text form cannot hold
	Text string // the value as printed
	Zero bool   // the value is zero, so a program does not print it
}

// Params returns p's parameters: the exported fields of its struct, including the fields
// of embedded structs, in order of declaration.
func Params(p Primitive) []Param {
	var ps []Param
	for _, f := range fields(structOf(p)) {
		ps = append(ps, Param{
			Key:  f.key,
			Kind: kindName(f.value.Type(), false),
			Text: string(appendValue(nil, f.value, programName)),
			Zero: f.omitted(),
		})
	}
	return ps
}

// ParamsOf returns parameters of p: those named by the exported fields of T, a struct. It is an error
// if p has no parameter of that name and type.
//
//	axis, err := graph.ParamsOf[struct{ Axis int }](p)
func ParamsOf[T any](p Primitive) (T, error) {
	var out T
	err := matching(p, structOf(p), reflect.ValueOf(&out).Elem(), func(param, field reflect.Value) { field.Set(param) })
	return out, err
}

// WithParams returns p with other values of the parameters named by the exported fields of params, a
// struct. It is an error if p has no parameter of that name and type.
func WithParams(p Primitive, params any) (Primitive, error) {
	changed := reflect.New(structOf(p).Type())
	changed.Elem().Set(structOf(p))
	err := matching(p, changed.Elem(), reflect.ValueOf(params), func(param, field reflect.Value) { param.Set(field) })
	if reflect.TypeOf(p).Kind() != reflect.Pointer {
		changed = changed.Elem()
	}
	return changed.Interface().(Primitive), err
}

// matching calls f for each field of a struct, with the parameter of p of that name, a field of
// values.
func matching(p Primitive, values, of reflect.Value, f func(param, field reflect.Value)) error {
	params := fields(values)
	for _, to := range fields(of) {
		i := slices.IndexFunc(params, func(q field) bool { return q.key == to.key })
		switch {
		case i < 0:
			return fmt.Errorf("graph: primitive %s has no parameter %s", p.Name(), to.key)
		case params[i].value.Type() != to.value.Type():
			return fmt.Errorf("graph: parameter %s of primitive %s is of type %s, not %s", to.key, p.Name(), params[i].value.Type(), to.value.Type())
		}
		f(params[i].value, to.value)
	}
	return nil
}

// written returns an error if the text form cannot hold p: its name, or one of its fields.
func written(p Primitive) error {
	if name := p.Name(); !identifier(name) {
		return fmt.Errorf("the primitive's name is %s, want a letter or _ and then letters, digits or _", quoted.Name(name))
	}
	v := structOf(p)
	if v.Kind() != reflect.Struct {
		return fmt.Errorf("the primitive is a %s, want a struct, whose exported fields are parameters", reflect.TypeOf(p))
	}
	return writtenFields(v.Type())
}

func writtenFields(t reflect.Type) error {
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			if err := writtenFields(f.Type); err != nil {
				return err
			}
		case f.IsExported() && kindName(f.Type, false) == "":
			return fmt.Errorf("field %s is a %s, which no text can hold; want an integer, a number, a boolean, a string, a graph.DType, a *graph.Program, or a slice of these", f.Name, f.Type)
		}
	}
	return nil
}

// ParamString returns p's non-zero parameters as a program prints them after
// the arguments: " k=2 axis=1", or "" if there are none.
func ParamString(p Primitive) string {
	return string(appendParams(nil, p, programName))
}

func programName(p *Program) string { return p.Name }

func appendParams(b []byte, p Primitive, name func(*Program) string) []byte {
	for _, f := range fields(structOf(p)) {
		if f.omitted() {
			continue
		}
		b = append(b, ' ')
		b = append(b, f.key...)
		b = append(b, '=')
		b = appendValue(b, f.value, name)
	}
	return b
}

// programs returns the programs that p's parameters refer to, in order.
func programs(p Primitive) []*Program {
	var ps []*Program
	var walk func(reflect.Value)
	walk = func(v reflect.Value) {
		switch {
		case v.Type() == programType:
			if !v.IsNil() {
				ps = append(ps, v.Interface().(*Program))
			}
		case v.Kind() == reflect.Slice && kindName(v.Type(), false) != "":
			for i := range v.Len() {
				walk(v.Index(i))
			}
		}
	}
	for _, f := range fields(structOf(p)) {
		walk(f.value)
	}
	return ps
}

var (
	dtypeType   = reflect.TypeFor[DType]()
	programType = reflect.TypeFor[*Program]()
)

type field struct {
	key     string
	value   reflect.Value
	written bool // always printed, even if zero: the field has the tag graph:"written"
	wire    bool // the element type of values that ranks send: the field has the tag graph:"wire"
}

// omitted reports whether a program does not print the field.
func (f field) omitted() bool { return zero(f.value) && !f.written }

// structOf returns the struct implementing p.
func structOf(p Primitive) reflect.Value { return reflect.Indirect(reflect.ValueOf(p)) }

// fields returns the exported fields of the struct v. They can be set if v can.
func fields(v reflect.Value) []field {
	if v.Kind() != reflect.Struct {
		return nil
	}
	var fs []field
	for i := range v.NumField() {
		switch f := v.Type().Field(i); {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			fs = append(fs, fields(v.Field(i))...)
		case f.IsExported():
			tag := f.Tag.Get("graph")
			fs = append(fs, field{snake(f.Name), v.Field(i), tag == "written", tag == "wire"})
		}
	}
	return fs
}

// snake returns a field's name in the text form. Capitals in a row are one word
// (LHSContract: lhs_contract), and so is DType.
func snake(name string) string {
	name = strings.ReplaceAll(name, "DType", "Dtype")
	upper := func(i int) bool { return i < len(name) && name[i] >= 'A' && name[i] <= 'Z' }
	var b strings.Builder
	for i := range len(name) {
		lastOfRun := i+1 < len(name) && !upper(i+1) && name[i+1] != '_' && (name[i+1] < '0' || name[i+1] > '9')
		if i > 0 && upper(i) && name[i-1] != '_' && (!upper(i-1) || lastOfRun) {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToLower(name[i : i+1]))
	}
	return b.String()
}

// kindName returns a phrase for the values of Go type t, for use in messages.
// It is "" for a type that the text form cannot hold.
func kindName(t reflect.Type, plural bool) string {
	s := ""
	if plural {
		s = "s"
	}
	switch t {
	case dtypeType:
		return "element type" + s
	case programType:
		return "program" + s
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "integer" + s
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "unsigned integer" + s
	case reflect.Float32, reflect.Float64:
		return "number" + s
	case reflect.Bool:
		return "boolean" + s
	case reflect.String:
		return "quoted string" + s
	case reflect.Slice:
		if elem := kindName(t.Elem(), true); elem != "" {
			return "list" + s + " of " + elem
		}
	}
	return ""
}

// zero reports whether v is zero, so that a program omits it. Negative zero is
// not zero here; an empty list is, nil or not.
func zero(v reflect.Value) bool {
	switch {
	case v.Kind() == reflect.Slice:
		return v.Len() == 0
	case v.CanFloat():
		return math.Float64bits(v.Float()) == 0
	}
	return v.IsZero()
}

// appendValue appends v as the text form writes it. A value that the text form
// cannot hold is written as <type>, which Parse rejects.
func appendValue(b []byte, v reflect.Value, name func(*Program) string) []byte {
	switch {
	case kindName(v.Type(), false) == "", v.Type() == programType && v.IsNil():
		return append(append(append(b, '<'), v.Type().String()...), '>')
	case v.Type() == dtypeType:
		return append(b, DType(v.Uint()).String()...)
	case v.Type() == programType:
		return append(b, name(v.Interface().(*Program))...)
	case v.CanInt():
		return strconv.AppendInt(b, v.Int(), 10)
	case v.CanUint():
		return strconv.AppendUint(b, v.Uint(), 10)
	case v.CanFloat():
		return appendFloat(b, v.Float(), v.Type().Bits())
	}
	switch v.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool())
	case reflect.String:
		return strconv.AppendQuote(b, v.String())
	}
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendValue(b, v.Index(i), name)
	}
	return append(b, ']')
}

// appendFloat appends the shortest decimal reading back as x: 1e-05, -0, inf, -inf, nan.
func appendFloat(b []byte, x float64, bits int) []byte {
	switch {
	case math.IsInf(x, 1):
		return append(b, "inf"...)
	case math.IsInf(x, -1):
		return append(b, "-inf"...)
	case math.IsNaN(x):
		return append(b, "nan"...)
	}
	return strconv.AppendFloat(b, x, 'g', -1, bits)
}
