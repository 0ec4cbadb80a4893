package jaccl

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
)

// blockBytes is how much of every member's src is summed at a time: the
// accumulator stays in the first-level cache. It is a multiple of every
// element's size.
const blockBytes = 2048

// accumulator is the working memory of a sum. total and wide have room for a
// block of 2-byte elements widened to f32.
type accumulator struct {
	total, wide [2 * blockBytes / 8]uint64
	in          [blockBytes / 8]uint64
}

type number interface {
	float64 | float32 | int32 | int64 | uint8 | uint32
}

// sum returns bytes lo to hi, at most a block, of the sum of the members' src
// in the order of members: in the memory of dst, where that can hold elements,
// or in memory that is valid until the next call. dst may be bytes lo to hi of
// the first member's src.
func (a *accumulator) sum(d graph.DType, posts []post, lo, hi int, dst []byte) []byte {
	if len(posts) == 1 {
		return posts[0].src[lo:hi]
	}
	switch d {
	case graph.F64:
		return fold[float64](a, posts, lo, hi, dst)
	case graph.F32:
		return fold[float32](a, posts, lo, hi, dst)
	case graph.I32:
		return fold[int32](a, posts, lo, hi, dst)
	case graph.I64:
		return fold[int64](a, posts, lo, hi, dst)
	case graph.U8:
		return fold[uint8](a, posts, lo, hi, dst)
	case graph.U32:
		return fold[uint32](a, posts, lo, hi, dst)
	case graph.BF16:
		return foldWide(a, posts, lo, hi, dst, array.WidenBrain, array.NarrowBrain)
	case graph.F16:
		return foldWide(a, posts, lo, hi, dst, array.WidenHalf, array.NarrowHalf)
	}
	panic("jaccl: sum of " + d.String()) // refused by summable
}

func fold[E number](a *accumulator, posts []post, lo, hi int, dst []byte) []byte {
	out := dst
	if !isAligned(dst) {
		out = memory(a.total[:])[:hi-lo]
	}
	total := elements[E](out)
	x := total
	if isAligned(posts[0].src[lo:hi]) {
		x = elements[E](posts[0].src[lo:hi])
	} else {
		copy(out, posts[0].src[lo:hi])
	}
	for i := range posts[1:] {
		in := elements[E](a.aligned(posts[1+i].src[lo:hi]))[:len(total)]
		if y, ok := any(in).([]float32); ok {
			kernel.Add(any(total).([]float32), any(x).([]float32), y)
		} else {
			x := x[:len(total)]
			for k := range total {
				total[k] = x[k] + in[k]
			}
		}
		x = total
	}
	return out
}

// foldWide sums numbers of 2 bytes in f32 and rounds once.
func foldWide[E array.Brain | array.Half](a *accumulator, posts []post, lo, hi int, dst []byte, widen func([]float32, []E), narrow func([]E, []float32)) []byte {
	n := (hi - lo) / 2
	total, wide := elements[float32](memory(a.total[:]))[:n], elements[float32](memory(a.wide[:]))[:n]
	for i := range posts {
		in := elements[E](a.aligned(posts[i].src[lo:hi]))
		if i == 0 { // not 0 + x, which would lose the sign of -0
			widen(total, in)
			continue
		}
		widen(wide, in)
		kernel.Add(total, total, wide)
	}
	if !isAligned(dst) {
		dst = memory(a.in[:])[:hi-lo]
	}
	narrow(elements[E](dst), total)
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
