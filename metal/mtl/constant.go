package mtl

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

// Constant is the value of a function constant. Index 3 is the constant declared in the source with
// [[function_constant(3)]]. Value is a bool, an int or uint of 8 to 64 bits, or a float32, matching
// the declared type.
type Constant struct {
	Index int
	Value any
}

// encoded returns the constant's MTLDataType and its bits.
func (c Constant) encoded() (kind uintptr, bits uint64, err error) {
	switch v := c.Value.(type) {
	case bool:
		if v {
			bits = 1
		}
		return 53, bits, nil
	case int8:
		return 45, uint64(uint8(v)), nil
	case uint8:
		return 49, uint64(v), nil
	case int16:
		return 37, uint64(uint16(v)), nil
	case uint16:
		return 41, uint64(v), nil
	case int32:
		return 29, uint64(uint32(v)), nil
	case uint32:
		return 33, uint64(v), nil
	case int64:
		return 81, uint64(v), nil
	case uint64:
		return 85, v, nil
	case float32:
		return 3, uint64(*(*uint32)(unsafe.Pointer(&v))), nil
	}
	return 0, 0, fmt.Errorf("constant %d is a %T, want a bool, an integer of a given size or a float32", c.Index, c.Value)
}

// sorted returns the constants sorted by index, and a text identifying their indices and values.
func sorted(constants []Constant) ([]Constant, string, error) {
	list := slices.SortedFunc(slices.Values(constants), func(a, b Constant) int { return a.Index - b.Index })
	var text strings.Builder
	for i, c := range list {
		kind, bits, err := c.encoded()
		if err != nil {
			return nil, "", err
		}
		if i > 0 && list[i-1].Index == c.Index {
			return nil, "", fmt.Errorf("constant %d is given twice", c.Index)
		}
		fmt.Fprintf(&text, "%d:%d:%x ", c.Index, kind, bits)
	}
	return list, text.String(), nil
}

// constantValues returns an MTLFunctionConstantValues, which the caller releases.
func (rt *Runtime) constantValues(list []Constant) uintptr {
	values := rt.msg(rt.msg(rt.class.constants, rt.sel.alloc), rt.sel.initialize)
	for _, c := range list {
		kind, bits, _ := c.encoded() // cannot fail: checked by sorted
		value := new(uint64)         // every machine with Metal is little-endian
		*value = bits
		rt.msg(values, rt.sel.setConstantValue, uintptr(unsafe.Pointer(value)), kind, uintptr(c.Index))
	}
	return values
}
