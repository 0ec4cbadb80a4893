package gguf

import (
	"fmt"
	"math"
)

// Meta is a key with its value.
type Meta struct {
	Key string
	// Value is a uint8, int8, uint16, int16, uint32, int32, uint64, int64, float32, float64, bool or string, or a
	// slice of one of them.
	Value any
}

// Kinds of values.
const (
	kindU8 = iota
	kindI8
	kindU16
	kindI16
	kindU32
	kindI32
	kindF32
	kindBool
	kindString
	kindArray
	kindU64
	kindI64
	kindF64
)

// value reads a value of the given kind. If the file ends too early, the cursor has the error.
func (c *cursor) value(kind uint32) (any, error) {
	switch kind {
	case kindU8:
		return scalar[uint8](c), c.err
	case kindI8:
		return scalar[int8](c), c.err
	case kindU16:
		return scalar[uint16](c), c.err
	case kindI16:
		return scalar[int16](c), c.err
	case kindU32:
		return scalar[uint32](c), c.err
	case kindI32:
		return scalar[int32](c), c.err
	case kindU64:
		return scalar[uint64](c), c.err
	case kindI64:
		return scalar[int64](c), c.err
	case kindF32:
		return scalar[float32](c), c.err
	case kindF64:
		return scalar[float64](c), c.err
	case kindBool:
		b := scalar[uint8](c)
		if c.err == nil && b > 1 {
			return nil, fmt.Errorf("a bool of %d, want 0 or 1", b)
		}
		return b == 1, c.err
	case kindString:
		return c.text(), c.err
	case kindArray:
		return c.values()
	}
	return nil, fmt.Errorf("a value of kind %d, want 0 to %d", kind, kindF64)
}

// values reads an array.
func (c *cursor) values() (any, error) {
	kind, n := scalar[uint32](c), scalar[uint64](c)
	if c.err != nil {
		return nil, c.err
	}
	switch kind {
	case kindU8:
		return list[uint8](c, n)
	case kindI8:
		return list[int8](c, n)
	case kindU16:
		return list[uint16](c, n)
	case kindI16:
		return list[int16](c, n)
	case kindU32:
		return list[uint32](c, n)
	case kindI32:
		return list[int32](c, n)
	case kindU64:
		return list[uint64](c, n)
	case kindI64:
		return list[int64](c, n)
	case kindF32:
		return list[float32](c, n)
	case kindF64:
		return list[float64](c, n)
	case kindBool:
		bytes, err := list[uint8](c, n)
		if err != nil {
			return nil, err
		}
		out := make([]bool, len(bytes))
		for i, b := range bytes {
			if b > 1 {
				return nil, fmt.Errorf("a bool of %d, want 0 or 1", b)
			}
			out[i] = b == 1
		}
		return out, nil
	case kindString:
		if n > uint64(len(c.mem)-c.at)/8 {
			return nil, fmt.Errorf("an array of %d strings, more than the file's %d further bytes have", n, len(c.mem)-c.at)
		}
		const header = 16 // size of a string header
		if err := c.use(n, header); err != nil {
			return nil, err
		}
		out := make([]string, n)
		for i := range out {
			if out[i] = c.text(); c.err != nil {
				return nil, c.err
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("an array of kind %d, want numbers, bools or strings", kind)
}

// Int returns the value of a key as an integer. It returns false if the key is missing, or if its value is not an
// integer that fits.
func (f *File) Int(key string) (int, bool) {
	v, ok := f.Value(key)
	if !ok {
		return 0, false
	}
	switch v := v.(type) {
	case uint8:
		return int(v), true
	case int8:
		return int(v), true
	case uint16:
		return int(v), true
	case int16:
		return int(v), true
	case uint32:
		return int(v), int64(int(v)) == int64(v)
	case int32:
		return int(v), true
	case uint64:
		return int(v), v <= math.MaxInt
	case int64:
		return int(v), int64(int(v)) == v
	}
	return 0, false
}

// Value returns the value of a key with the type stored in the file.
func (f *File) Value(key string) (any, bool) {
	for _, m := range f.Meta {
		if m.Key == key {
			return m.Value, true
		}
	}
	return nil, false
}
