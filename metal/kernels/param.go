package kernels

import (
	"fmt"
	"reflect"

	"github.com/gomoe/gomoe/graph"
)

// param returns a parameter of a primitive by the name of its field, since most
// primitives' types are not exported. That there is none of that type is a kernel's mistake.
func param[T any](p graph.Primitive, field string) (T, error) {
	var none T
	v := reflect.ValueOf(p)
	if v.Kind() != reflect.Struct {
		return none, fmt.Errorf("the primitive is %T, want a struct with field %s", p, field)
	}
	f := v.FieldByName(field)
	if !f.IsValid() {
		return none, fmt.Errorf("primitive %s has no parameter %s", p.Name(), field)
	}
	x, ok := f.Interface().(T)
	if !ok {
		return none, fmt.Errorf("parameter %s of primitive %s is of type %s, want %T", field, p.Name(), f.Type(), none)
	}
	return x, nil
}
