package graph

import (
	"math"
	"reflect"
)

// EqualPrimitive reports whether a and b are the same operation: the same Go
// type and name with equal parameters and equal unexported fields. Nil lists
// equal empty ones, zero differs from negative zero, NaN equals NaN, programs
// are equal if they print alike apart from their scopes, and functions, which cannot be
// compared, are equal only if both are nil.
func EqualPrimitive(a, b Primitive) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	if reflect.TypeOf(a) != reflect.TypeOf(b) || a.Name() != b.Name() {
		return false
	}
	return equalValue(structOf(a), structOf(b))
}

// equalValue compares two values of one type. It does not call Interface(),
// because it also reads unexported fields.
func equalValue(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Invalid:
		return a.IsValid() == b.IsValid()
	case reflect.Float32, reflect.Float64:
		x, y := a.Float(), b.Float()
		return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !equalValue(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		for i := range a.NumField() {
			if !equalValue(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return a.Elem().Type() == b.Elem().Type() && equalValue(a.Elem(), b.Elem())
	case reflect.Pointer:
		if a.Pointer() == b.Pointer() {
			return true
		}
		if a.Type() == programType && !a.IsNil() && !b.IsNil() && a.CanInterface() && b.CanInterface() {
			text := func(v reflect.Value) string { return v.Interface().(*Program).Print(PrintOptions{unscoped: true}) }
			return text(a) == text(b)
		}
		return false
	case reflect.Func:
		return a.IsNil() && b.IsNil()
	case reflect.Map, reflect.Chan, reflect.UnsafePointer:
		return a.Pointer() == b.Pointer()
	}
	return a.Equal(b)
}
