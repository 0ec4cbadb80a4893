package array

import (
	"fmt"
	"unsafe"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/quant"
)

// Array is a dense row-major array, or one made by InSlabs. The zero Array has no element
// type and no memory. Copies of an Array share its memory; concurrent writes need
// synchronisation by the caller.
type Array struct {
	Type graph.Type
	mem  []byte // Type.Bytes() bytes; 8-byte aligned, except in arrays made by Over
	// slabs has the memory of each index of dimension 0, nil unless the array was made by
	// InSlabs.
	slabs [][]byte
}

// Elem is a Go type storing an element type one to one. F16 and BF16 are stored as Half
// and Brain, F8_E4M3 and F8_E5M2 as E4M3 and E5M2.
type Elem interface {
	float64 | float32 | Brain | Half | E4M3 | E5M2 | int32 | int64 | uint8 | uint32 | bool
}

// Half is an IEEE binary16 number, Brain a bfloat16 number, as bits.
type (
	Half  uint16
	Brain uint16
)

// New returns a zeroed array of type t. Like make, it panics if t has a negative size, or
// more bytes than can be allocated.
func New(t graph.Type) Array {
	for d, n := range t.Shape {
		if n < 0 {
			panic(fmt.Sprintf("array: New(%s): size %d in dimension %d, want 0 or more", t, n, d))
		}
	}
	n := t.Bytes()
	words := make([]uint64, (n+7)/8)
	return Array{Type: t, mem: unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)[:n:n]}
}

// Over returns an array of type t in the first t.Bytes() bytes of mem. The array shares
// mem, which may be read-only, such as a mapped file. mem may begin at any address:
// elements are read unaligned, as amd64 and arm64 can, and putting the array on ranks
// copies it to aligned memory. Like slicing, it panics if mem is shorter.
func Over(t graph.Type, mem []byte) Array {
	n := t.Bytes()
	if n > int64(len(mem)) {
		panic(fmt.Sprintf("array: Over(%s): %d bytes of memory, want %d", t, len(mem), n))
	}
	return Array{Type: t, mem: mem[:n:n]}
}

// Outline returns an array of type t without memory: its Data and Bytes have no elements.
// It is for code needing only the array's type, such as exec.Dry.
func Outline(t graph.Type) Array { return Array{Type: t, mem: []byte{}} }

// IsOutline reports whether a has elements but no memory for them, like Outline's arrays.
func (a Array) IsOutline() bool { return a.slabs == nil && len(a.mem) == 0 && a.Type.Bytes() > 0 }

// Of returns an array of the given shape with a copy of data. It is an error if data does
// not have as many elements as the shape.
func Of[E Elem](data []E, shape ...int) (Array, error) {
	t := graph.Type{DType: DTypeOf[E](), Shape: append([]int(nil), shape...)}
	if t.Len() != len(data) {
		return Array{}, fmt.Errorf("array: %d elements for %s, want %d", len(data), t, t.Len())
	}
	a := New(t)
	copy(Data[E](a), data)
	return a, nil
}

// OfBlocks returns an array of the given shape with a copy of blocks of type d, in the
// layout of GGUF files. It is an error if d is not a type in blocks, or if the shape
// needs another number of bytes.
func OfBlocks(d graph.DType, blocks []byte, shape ...int) (Array, error) {
	t := graph.Type{DType: d, Shape: append([]int(nil), shape...)}
	if !d.IsBlock() {
		return Array{}, fmt.Errorf("array: blocks of %s, want one of %s", d, quoted.Words(quant.Types()))
	}
	if err := t.Check(); err != nil {
		return Array{}, fmt.Errorf("array: blocks: %w", err)
	}
	if t.Bytes() != int64(len(blocks)) {
		return Array{}, fmt.Errorf("array: %d bytes of blocks for %s, want %d", len(blocks), t, t.Bytes())
	}
	a := New(t)
	copy(a.mem, blocks)
	return a, nil
}

// Scalar returns an array without dimensions.
func Scalar[E Elem](x E) Array {
	a := New(graph.Type{DType: DTypeOf[E]()})
	Data[E](a)[0] = x
	return a
}

// DTypeOf returns the element type that E stores.
func DTypeOf[E Elem]() graph.DType {
	var z E
	switch any(z).(type) {
	case float64:
		return graph.F64
	case float32:
		return graph.F32
	case Brain:
		return graph.BF16
	case Half:
		return graph.F16
	case E4M3:
		return graph.F8_E4M3
	case E5M2:
		return graph.F8_E5M2
	case int32:
		return graph.I32
	case int64:
		return graph.I64
	case uint8:
		return graph.U8
	case uint32:
		return graph.U32
	case bool:
		return graph.Bool
	}
	return graph.NoDType
}

// Data returns a's elements, sharing its memory. It panics if E does not store a's
// element type, which is a bug in the caller.
func Data[E Elem](a Array) []E {
	if d := DTypeOf[E](); d != a.Type.DType {
		panic(fmt.Sprintf("array: elements of %s read as %s", a.Type, d))
	}
	mem := a.Bytes()
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/int(unsafe.Sizeof(*new(E))))
}

// Bytes returns the memory of a, in the machine's byte order, without copying. It panics
// if a was made by InSlabs.
func (a Array) Bytes() []byte {
	if a.slabs != nil {
		panic(fmt.Sprintf("array: the bytes of %s, which lies in slabs; Dense copies it", a.Type))
	}
	return a.mem
}

// Clone returns a copy of a with its own memory.
func (a Array) Clone() Array {
	if a.slabs != nil {
		return a.Dense()
	}
	b := New(a.Type)
	copy(b.mem, a.mem)
	return b
}

// Reshape returns an array of another shape with the same number of elements. It
// shares a's memory.
func (a Array) Reshape(shape ...int) Array {
	mem := a.Bytes()
	return Array{Type: graph.Type{DType: a.Type.DType, Shape: shape}, mem: mem[:len(mem):len(mem)]}
}

// Rows returns rows lo to hi of dimension 0 (hi excluded), sharing a's memory. In
// an array of one dimension with elements in blocks, lo and hi are multiples of a
// block's elements.
func (a Array) Rows(lo, hi int) Array {
	to := func(row int) int64 {
		return graph.Type{DType: a.Type.DType, Shape: append([]int{row}, a.Type.Shape[1:]...)}.Bytes()
	}
	t := graph.Type{DType: a.Type.DType, Shape: append([]int{hi - lo}, a.Type.Shape[1:]...)}
	return Array{Type: t, mem: a.Bytes()[to(lo):to(hi):to(hi)]}
}
