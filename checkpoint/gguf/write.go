package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/whole"
)

// Write writes keys and tensors to a file of version 3, replacing it atomically: after an error the old file is
// unchanged. It is an error if a name is duplicated, if the format does not support an element type or a kind of
// value, or if a tensor has no dimensions or more than four.
func Write(path string, meta []Meta, tensors []tensor.Source) error {
	err := whole.Write(path, func(w io.Writer) error { return write(w, meta, tensors) })
	if err != nil {
		return fmt.Errorf("gguf: %s: %w", path, err)
	}
	return nil
}

func write(w io.Writer, meta []Meta, tensors []tensor.Source) error {
	head, err := encode(meta, tensors)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, t := range tensors {
		if err := t.Copy(w); err != nil {
			return err
		}
		n := t.Type.Bytes()
		if _, err := w.Write(make([]byte, up(n, alignment)-n)); err != nil {
			return err
		}
	}
	return nil
}

// encode returns the part of the file preceding the tensors' bytes.
func encode(meta []Meta, tensors []tensor.Source) ([]byte, error) {
	b := binary.LittleEndian.AppendUint32([]byte(magic), 3)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(tensors)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(meta)))
	keys := map[string]bool{alignmentKey: true} // reserved for Write
	for _, m := range meta {
		if keys[m.Key] {
			return nil, fmt.Errorf("key %s: want it once, and %q not at all", quoted.Name(m.Key), alignmentKey)
		}
		keys[m.Key] = true
		var err error
		if b, err = appendValue(appendText(b, m.Key), m.Value); err != nil {
			return nil, fmt.Errorf("key %s: %w", quoted.Name(m.Key), err)
		}
	}
	names, at := map[string]bool{}, int64(0)
	for _, t := range tensors {
		if names[t.Name] {
			return nil, fmt.Errorf("tensor %s: the name is used twice", quoted.Name(t.Name))
		}
		names[t.Name] = true
		d, ok := byType(t.Type.DType)
		if !ok {
			return nil, fmt.Errorf("tensor %s: the format has no element type %s", quoted.Name(t.Name), t.Type.DType)
		}
		if err := t.Type.Check(); err != nil {
			return nil, fmt.Errorf("tensor %s: %w", quoted.Name(t.Name), err)
		}
		if r := t.Type.Rank(); r < 1 || r > maxRank {
			return nil, fmt.Errorf("tensor %s: %s has %d dimensions, want 1 to %d", quoted.Name(t.Name), t.Type, r, maxRank)
		}
		b = binary.LittleEndian.AppendUint32(appendText(b, t.Name), uint32(t.Type.Rank()))
		for _, n := range slices.Backward(t.Type.Shape) {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		b = binary.LittleEndian.AppendUint32(b, d.id)
		b = binary.LittleEndian.AppendUint64(b, uint64(at))
		at += up(t.Type.Bytes(), alignment)
	}
	return append(b, make([]byte, up(int64(len(b)), alignment)-int64(len(b)))...), nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// appendValue appends a value's kind and the value.
func appendValue(b []byte, v any) ([]byte, error) {
	kind, n := kindOf(v)
	if kind < 0 {
		return nil, fmt.Errorf("a value of Go type %T, want a number, bool, string, or a slice of one of them", v)
	}
	if n >= 0 {
		b = binary.LittleEndian.AppendUint32(b, kindArray)
		b = binary.LittleEndian.AppendUint32(b, uint32(kind))
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(kind))
	}
	switch v := v.(type) {
	case string:
		return appendText(b, v), nil
	case []string:
		for _, s := range v {
			b = appendText(b, s)
		}
		return b, nil
	}
	return binary.Append(b, binary.LittleEndian, v)
}

// kindOf returns the kind of a value, negative if the format has none, and the length of a slice, negative for a
// single value.
func kindOf(v any) (kind, length int) {
	switch v := v.(type) {
	case uint8:
		return kindU8, -1
	case int8:
		return kindI8, -1
	case uint16:
		return kindU16, -1
	case int16:
		return kindI16, -1
	case uint32:
		return kindU32, -1
	case int32:
		return kindI32, -1
	case uint64:
		return kindU64, -1
	case int64:
		return kindI64, -1
	case float32:
		return kindF32, -1
	case float64:
		return kindF64, -1
	case bool:
		return kindBool, -1
	case string:
		return kindString, -1
	case []uint8:
		return kindU8, len(v)
	case []int8:
		return kindI8, len(v)
	case []uint16:
		return kindU16, len(v)
	case []int16:
		return kindI16, len(v)
	case []uint32:
		return kindU32, len(v)
	case []int32:
		return kindI32, len(v)
	case []uint64:
		return kindU64, len(v)
	case []int64:
		return kindI64, len(v)
	case []float32:
		return kindF32, len(v)
	case []float64:
		return kindF64, len(v)
	case []bool:
		return kindBool, len(v)
	case []string:
		return kindString, len(v)
	}
	return -1, -1
}
