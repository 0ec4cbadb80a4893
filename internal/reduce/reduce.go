// Package reduce is the arithmetic of collectives: sums and extremes of ranks' buffers,
// element by element, of every type that has them.
//
// Elements of 2 bytes are added in f32. How often a sum of them is rounded is the
// caller's choice: Into and Block take all ranks' buffers and round once, Pair takes two
// and so rounds after every addition, as MLX's protocols demand. The extremes of a NaN,
// and of 0 and -0, are each protocol's own; see Op.
package reduce

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// BlockBytes is how much of every member's src is summed at a time: the
// accumulator stays in the first-level cache. It is a multiple of every
// element's size.
const BlockBytes = 2048

// Accumulator is the working memory of a reduction. total and wide have room for a
// block of 2-byte elements widened to f32.
type Accumulator struct {
	total, wide [2 * BlockBytes / 8]uint64
	in, out     [BlockBytes / 8]uint64
	pair        [2][]byte // what Pair reduces

	// Blocks is what is reduced at a time, of every member: Into's, and for callers of
	// Block.
	Blocks [][]byte
}

type number interface {
	float64 | float32 | int32 | int64 | uint8 | uint32
}

// Op is what becomes of the elements that ranks have for one place.
type Op uint8

const (
	// Sum is their sum, in the order of ranks. Of bools it is their disjunction.
	Sum Op = iota
	// Max and Min are the language's: a NaN wins, and -0 is below 0.
	Max
	Min
	// Greater and Less are JACCL's, a > b ? a : b and a < b ? a : b of the earlier and
	// the later element, of bools their disjunction and conjunction. The bits are those
	// of one of the two.
	Greater
	Less
	// Above and Below take the later element where it is the larger, or the smaller, or
	// a NaN: equal elements, as 0 and -0 are, stay the earlier. The bits are those of
	// one of the two.
	Above
	Below
)

// Block returns the elements of srcs, at most BlockBytes of each, reduced in the
// order of srcs: in the memory of dst, where that can hold elements, or in memory
// that is valid until the next call. dst may be the first of srcs.
func (a *Accumulator) Block(r Op, d graph.DType, srcs [][]byte, dst []byte) []byte {
	if len(srcs) == 1 {
		return srcs[0]
	}
	switch d {
	case graph.F64:
		return fold[float64](a, r, srcs, dst)
	case graph.F32:
		return fold[float32](a, r, srcs, dst)
	case graph.I32:
		return fold[int32](a, r, srcs, dst)
	case graph.I64:
		return fold[int64](a, r, srcs, dst)
	case graph.U8:
		return fold[uint8](a, r, srcs, dst)
	case graph.U32:
		return fold[uint32](a, r, srcs, dst)
	case graph.Bool:
		return foldBools(r, srcs, dst)
	case graph.BF16:
		return foldWide(a, r, srcs, dst, array.WidenBrain, array.NarrowBrain)
	case graph.F16:
		return foldWide(a, r, srcs, dst, array.WidenHalf, array.NarrowHalf)
	}
	panic("reduce: elements of " + d.String()) // which callers refuse
}

// Into is Block, block by block, for any length. dst may be one of srcs.
func (a *Accumulator) Into(dst []byte, r Op, d graph.DType, srcs [][]byte) {
	inPlace := false
	for _, s := range srcs[1:] {
		inPlace = inPlace || Overlap(dst, s)
	}
	for lo := 0; lo < len(dst); lo += BlockBytes {
		hi := min(lo+BlockBytes, len(dst))
		a.Blocks = a.Blocks[:0]
		for _, s := range srcs {
			a.Blocks = append(a.Blocks, s[lo:hi])
		}
		out := dst[lo:hi]
		if inPlace { // out is read when it has been written, otherwise
			out = Words(a.out[:])[:hi-lo]
		}
		copy(dst[lo:hi], a.Block(r, d, a.Blocks, out)) // nothing, where it is there
	}
	clear(a.Blocks)
}

func fold[E number](a *Accumulator, r Op, srcs [][]byte, dst []byte) []byte {
	out := dst
	if !isAligned(dst) {
		out = Words(a.total[:])[:len(dst)]
	}
	y := elements[E](out)
	x := y
	if isAligned(srcs[0]) && r < Greater {
		x = elements[E](srcs[0])
	} else {
		copy(out, srcs[0])
	}
	for _, src := range srcs[1:] {
		in := elements[E](a.aligned(src))
		if f, ok := any(in).([]float32); ok && r == Sum {
			vector.Add(any(y).([]float32), any(x).([]float32), f)
		} else if r < Greater {
			combine(r, y, x, in)
		} else {
			choose(r, y, in, y, in)
		}
		x = y
	}
	return out
}

// combine sets y to x and z, element by element, in one.
func combine[E number](r Op, y, x, z []E) {
	x, z = x[:len(y)], z[:len(y)]
	switch r {
	case Sum:
		for k := range y {
			y[k] = x[k] + z[k]
		}
	case Max:
		for k := range y {
			y[k] = max(x[k], z[k])
		}
	case Min:
		for k := range y {
			y[k] = min(x[k], z[k])
		}
	}
}

// choose sets y to z, element by element, where the numbers that they stand for, in a and
// b, say so.
func choose[E any, N number](r Op, y, z []E, a, b []N) {
	z, a, b = z[:len(y)], a[:len(y)], b[:len(y)]
	switch r {
	case Greater: // not max, which is of another mind about NaN and -0
		for k := range y {
			if !(a[k] > b[k]) {
				y[k] = z[k]
			}
		}
	case Less:
		for k := range y {
			if !(a[k] < b[k]) {
				y[k] = z[k]
			}
		}
	case Above:
		for k := range y {
			if b[k] > a[k] || b[k] != b[k] {
				y[k] = z[k]
			}
		}
	case Below:
		for k := range y {
			if b[k] < a[k] || b[k] != b[k] {
				y[k] = z[k]
			}
		}
	}
}

// foldWide reduces numbers of 2 bytes in f32 and rounds once.
func foldWide[E array.Brain | array.Half](a *Accumulator, r Op, srcs [][]byte, dst []byte, widen func([]float32, []E), narrow func([]E, []float32)) []byte {
	n := len(dst) / 2
	sum, wide := elements[float32](Words(a.total[:]))[:n], elements[float32](Words(a.wide[:]))[:n]
	out := dst
	if !isAligned(dst) {
		out = Words(a.out[:])[:len(dst)]
	}
	y := elements[E](out)
	for i, src := range srcs {
		in := elements[E](a.aligned(src))
		switch {
		case r >= Greater && i == 0:
			copy(y, in)
		case r >= Greater:
			widen(sum, y)
			widen(wide, in)
			choose(r, y, in, sum, wide)
		case i == 0: // not 0 + x, which would lose the sign of -0
			widen(sum, in)
		default:
			widen(wide, in)
			if r == Sum {
				vector.Add(sum, sum, wide)
			} else {
				combine(r, sum, sum, wide)
			}
		}
	}
	if r < Greater {
		narrow(y, sum)
	}
	return out
}

func foldBools(r Op, srcs [][]byte, dst []byte) []byte {
	copy(dst, srcs[0])
	for _, src := range srcs[1:] {
		for k := range dst {
			if r == Min || r == Less || r == Below {
				dst[k] &= src[k]
			} else {
				dst[k] |= src[k]
			}
		}
	}
	return dst
}

// Pair sets dst to dst and src, of one length, reduced. It rounds each time.
func (a *Accumulator) Pair(dst []byte, r Op, d graph.DType, src []byte) {
	a.pair = [2][]byte{dst, src}
	a.Into(dst, r, d, a.pair[:])
	a.pair = [2][]byte{}
}

// aligned returns src, or a copy of it where it does not start at a multiple of
// 8 bytes, which not every processor loads elements from.
func (a *Accumulator) aligned(src []byte) []byte {
	if isAligned(src) {
		return src
	}
	return Words(a.in[:])[:copy(Words(a.in[:]), src)]
}

func isAligned(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 == 0 }

// Words returns the memory of words, which begins where every element may.
func Words(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))
}

func elements[E number | array.Brain | array.Half](b []byte) []E {
	var e E
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(e)))
}

// Overlap reports whether two buffers share a byte.
func Overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	p, q := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return p < q+uintptr(len(b)) && q < p+uintptr(len(a))
}

// Same reports whether two buffers begin at the same byte.
func Same(a, b []byte) bool { return unsafe.SliceData(a) == unsafe.SliceData(b) }
