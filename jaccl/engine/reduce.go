package engine

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// blockBytes is how much of every member's src is summed at a time: the
// accumulator stays in the first-level cache. It is a multiple of every
// element's size.
const blockBytes = 2048

// accumulator is the working memory of a reduction. total and wide have room for a
// block of 2-byte elements widened to f32.
type accumulator struct {
	total, wide [2 * blockBytes / 8]uint64
	in, out     [blockBytes / 8]uint64
	block       [][]byte // what is reduced at a time, of every member
}

type number interface {
	float64 | float32 | int32 | int64 | uint8 | uint32
}

// reduction is what becomes of the elements that the members have for one place.
type reduction uint8

const (
	total reduction = iota
	largest
	smallest
)

// reductionOf returns what an operation makes of elements, false for those that
// only move them.
func reductionOf(op string) (r reduction, ok bool) {
	switch op {
	case allSum, reduceScatter:
		return total, true
	case allMax:
		return largest, true
	case allMin:
		return smallest, true
	}
	return 0, false
}

// reduce returns the elements of srcs, at most a block of each, reduced in the
// order of srcs: in the memory of dst, where that can hold elements, or in memory
// that is valid until the next call. dst may be the first of srcs.
func (a *accumulator) reduce(r reduction, d graph.DType, srcs [][]byte, dst []byte) []byte {
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
	case graph.BF16:
		return foldWide(a, r, srcs, dst, array.WidenBrain, array.NarrowBrain)
	case graph.F16:
		return foldWide(a, r, srcs, dst, array.WidenHalf, array.NarrowHalf)
	}
	panic("jaccl: sum of " + d.String()) // refused by numbers
}

// into is reduce block by block, for any length. dst may be one of srcs.
func (a *accumulator) into(dst []byte, r reduction, d graph.DType, srcs [][]byte) {
	inPlace := false
	for _, s := range srcs[1:] {
		inPlace = inPlace || overlap(dst, s)
	}
	for lo := 0; lo < len(dst); lo += blockBytes {
		hi := min(lo+blockBytes, len(dst))
		a.block = a.block[:0]
		for _, s := range srcs {
			a.block = append(a.block, s[lo:hi])
		}
		out := dst[lo:hi]
		if inPlace { // out is read when it has been written, otherwise
			out = memory(a.out[:])[:hi-lo]
		}
		copy(dst[lo:hi], a.reduce(r, d, a.block, out)) // nothing, where it is there
	}
	clear(a.block)
}

func fold[E number](a *accumulator, r reduction, srcs [][]byte, dst []byte) []byte {
	out := dst
	if !isAligned(dst) {
		out = memory(a.total[:])[:len(dst)]
	}
	y := elements[E](out)
	x := y
	if isAligned(srcs[0]) {
		x = elements[E](srcs[0])
	} else {
		copy(out, srcs[0])
	}
	for _, src := range srcs[1:] {
		in := elements[E](a.aligned(src))
		if f, ok := any(in).([]float32); ok && r == total {
			vector.Add(any(y).([]float32), any(x).([]float32), f)
		} else {
			combine(r, y, x, in)
		}
		x = y
	}
	return out
}

// combine sets y to x and z, element by element, in one. The language's max and
// min have NaN win, and -0 below 0.
func combine[E number](r reduction, y, x, z []E) {
	x, z = x[:len(y)], z[:len(y)]
	switch r {
	case total:
		for k := range y {
			y[k] = x[k] + z[k]
		}
	case largest:
		for k := range y {
			y[k] = max(x[k], z[k])
		}
	case smallest:
		for k := range y {
			y[k] = min(x[k], z[k])
		}
	}
}

// foldWide reduces numbers of 2 bytes in f32 and rounds once.
func foldWide[E array.Brain | array.Half](a *accumulator, r reduction, srcs [][]byte, dst []byte, widen func([]float32, []E), narrow func([]E, []float32)) []byte {
	n := len(dst) / 2
	sum, wide := elements[float32](memory(a.total[:]))[:n], elements[float32](memory(a.wide[:]))[:n]
	for i, src := range srcs {
		in := elements[E](a.aligned(src))
		if i == 0 { // not 0 + x, which would lose the sign of -0
			widen(sum, in)
			continue
		}
		widen(wide, in)
		if r == total {
			vector.Add(sum, sum, wide)
		} else {
			combine(r, sum, sum, wide)
		}
	}
	if !isAligned(dst) {
		dst = memory(a.in[:])[:len(dst)]
	}
	narrow(elements[E](dst), sum)
	return dst
}

// aligned returns src, or a copy of it where it does not start at a multiple of
// 8 bytes, which not every processor loads elements from.
func (a *accumulator) aligned(src []byte) []byte {
	if isAligned(src) {
		return src
	}
	return memory(a.in[:])[:copy(memory(a.in[:]), src)]
}

func isAligned(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 == 0 }

func memory(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))
}

func elements[E number | array.Brain | array.Half](b []byte) []E {
	var e E
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(e)))
}
