package array

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
)

// InSlabs returns an array of type t with separate memory, a slab, for each index of
// dimension 0, such as the matrices of experts stored as separate tensors in a file. The
// array shares the memory, which it reads and never writes. Slab reads such an array, and
// Dense copies it; Bytes and Data panic. Like Over, InSlabs panics if the number of slabs
// or the size of a slab is wrong.
func InSlabs(t graph.Type, slabs [][]byte) Array {
	if t.Rank() == 0 || len(slabs) != t.Shape[0] {
		panic(fmt.Sprintf("array: InSlabs(%s): %d slabs, want one for each index of dimension 0", t, len(slabs)))
	}
	for i, s := range slabs {
		if want := slabBytes(t); len(s) != want {
			panic(fmt.Sprintf("array: InSlabs(%s): slab %d has %d bytes, want %d", t, i, len(s), want))
		}
	}
	if slabs == nil {
		slabs = [][]byte{}
	}
	return Array{Type: t, slabs: slabs}
}

// slabBytes returns the bytes of one index of dimension 0.
func slabBytes(t graph.Type) int {
	if t.Shape[0] == 0 {
		return 0
	}
	return int(t.Bytes()) / t.Shape[0]
}

// HasSlabs reports whether the array was made by InSlabs.
func (a Array) HasSlabs() bool { return a.slabs != nil }

// Slab returns the memory of index i of dimension 0, for arrays in slabs or in one piece.
// For an Outline it has no bytes.
func (a Array) Slab(i int) []byte {
	if a.slabs != nil {
		return a.slabs[i]
	}
	if len(a.mem) == 0 {
		return a.mem
	}
	n := len(a.mem) / a.Type.Shape[0]
	return a.mem[i*n : (i+1)*n : (i+1)*n]
}

// Dense returns the array in one piece: a itself, or a copy of an array in slabs.
func (a Array) Dense() Array {
	if a.slabs == nil {
		return a
	}
	b := New(a.Type)
	to := b.mem
	for _, s := range a.slabs {
		to = to[copy(to, s):]
	}
	return b
}
