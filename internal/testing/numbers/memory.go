package numbers

import (
	"fmt"
	"reflect"
	"testing"
)

// SameMemory compares the memory counted by a dry run with kept, the workspaces of a real
// run. A buffer may be longer by a cache line for its alignment.
func SameMemory(t *testing.T, what string, taken map[any]int64, kept ...any) {
	t.Helper()
	const line = 64
	counted, want := map[uintptr]int64{}, map[string]int64{}
	for key, bytes := range taken {
		if p := reflect.ValueOf(key); p.Elem().Kind() == reflect.Slice {
			counted[p.Pointer()] = bytes
		}
	}
	for key := range taken {
		if p := reflect.ValueOf(key); p.Elem().Kind() == reflect.Struct {
			buffers(p.Elem(), p.Type().String(), func(name string, v reflect.Value) { want[name] = counted[v.UnsafeAddr()] })
		}
	}
	got := map[string]int64{}
	for _, w := range kept {
		buffers(reflect.ValueOf(w).Elem(), fmt.Sprintf("%T", w), func(name string, v reflect.Value) { got[name] = int64(v.Len()) * int64(v.Type().Elem().Size()) })
	}
	for name, bytes := range want {
		if n, ok := got[name]; !ok || n < bytes || n > bytes+line {
			t.Fatalf("%s: %s takes %d bytes, and %d in a dry run", what, name, n, bytes)
		}
	}
	for name, n := range got {
		if _, ok := want[name]; !ok {
			t.Fatalf("%s: %s takes %d bytes, and a dry run has no such workspace", what, name, n)
		}
	}
}

// buffers calls f with the slices in v and their names.
func buffers(v reflect.Value, name string, f func(name string, v reflect.Value)) {
	switch v.Kind() {
	case reflect.Slice:
		f(name, v)
	case reflect.Struct:
		for i := range v.NumField() {
			buffers(v.Field(i), name+"."+v.Type().Field(i).Name, f)
		}
	case reflect.Array:
		for i := range v.Len() {
			if k := v.Type().Elem().Kind(); k == reflect.Slice || k == reflect.Struct {
				buffers(v.Index(i), fmt.Sprintf("%s[%d]", name, i), f)
			}
		}
	}
}
