// Package reduce is the arithmetic of collectives: sums and extremes of ranks' buffers,
// element by element, for every element type that has them.
//
// Elements of 2 bytes are added in f32. The caller chooses the number of roundings of a
// sum: Into and Block take all ranks' buffers and round once; Pair takes two buffers and
// so rounds after every addition, as MLX's protocols require. Which element wins among
// NaNs, or between 0 and -0, depends on the protocol; see Op.
package reduce

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// BlockBytes is the number of bytes of every member's src summed at a time: the
// accumulator stays in the first-level cache. It is a multiple of every element's size.
const BlockBytes = 2048

// Accumulator is the working memory of a reduction. total and wide hold a block of 2-byte
// elements widened to f32.
type Accumulator struct {
	total, wide [2 * BlockBytes / 8]uint64
	in, out     [BlockBytes / 8]uint64
	pair        [2][]byte // the two arguments of Pair
	halves      [][]byte  // by depth, the sum of the second half of some buffers; see pairs

	// Blocks is the current block of every member's src. Into uses it; callers of Block
	// may use it too.
	Blocks [][]byte
}

type number interface {
	float64 | float32 | int32 | int64 | uint8 | uint32
}

// Op is an operation combining the ranks' elements at the same index.
type Op uint8

const (
	// Sum adds them in the order of ranks. For bools it is the disjunction.
	Sum Op = iota
	// Max and Min are Go's max and min: a NaN wins, and -0 is less than 0.
	Max
	Min
	// Greater and Less are JACCL's: a > b ? a : b and a < b ? a : b, where a is the
	// earlier and b the later element. For bools they are the disjunction and the
	// conjunction. The result has the bits of one operand.
	Greater
	Less
	// Above and Below take the later element if it is larger, or smaller, or a NaN. Of
	// equal elements, such as 0 and -0, they take the earlier. The result has the bits of
	// one operand.
	Above
	Below
	// Pairs adds f32 and f64 in pairs: the sum of the first buffers, as many as the
	// largest power of two below their number, formed recursively, plus the sum of the
	// others. Elements of other types are added in the order of ranks.
	Pairs
)

// Block returns the elements of srcs, at most BlockBytes of each, reduced in the order of
// srcs. The result is in dst if dst can hold elements, and otherwise in memory that is
// valid until the next call. dst may be the first of srcs.
func (a *Accumulator) Block(r Op, d graph.DType, srcs [][]byte, dst []byte) []byte {
	if len(srcs) == 1 {
		return srcs[0]
	}
	if r == Pairs {
		switch d {
		case graph.F64:
			return foldPairs[float64](a, srcs, dst)
		case graph.F32:
			return foldPairs[float32](a, srcs, dst)
		}
		r = Sum
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
	panic("reduce: elements of " + d.String()) // callers refuse such elements
}

// Into is Block for any length, one block after another. dst may be one of srcs.
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
		if inPlace { // otherwise out would be read after being written
			out = Words(a.out[:])[:hi-lo]
		}
		copy(dst[lo:hi], a.Block(r, d, a.Blocks, out)) // no-op if it is already there
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

// combine sets y to x and z combined, element by element, in one pass.
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

// choose sets elements of y to the elements of z for which r chooses b over a. a and b
// are the numeric values of y and z.
func choose[E any, N number](r Op, y, z []E, a, b []N) {
	z, a, b = z[:len(y)], a[:len(y)], b[:len(y)]
	switch r {
	case Greater: // not Go's max, which treats NaN and -0 differently
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

// foldWide reduces 2-byte numbers in f32, rounding once.
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

// Pair sets dst to the reduction of dst and src, which have the same length. It rounds
// every time.
func (a *Accumulator) Pair(dst []byte, r Op, d graph.DType, src []byte) {
	a.pair = [2][]byte{dst, src}
	a.Into(dst, r, d, a.pair[:])
	a.pair = [2][]byte{}
}

// aligned returns src, or a copy if src is not aligned to 8 bytes, because not every
// processor can load unaligned elements.
func (a *Accumulator) aligned(src []byte) []byte {
	if isAligned(src) {
		return src
	}
	return Words(a.in[:])[:copy(Words(a.in[:]), src)]
}

func isAligned(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 == 0 }

// Words returns the memory of words as bytes. It is aligned for every element type.
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
