package work

import (
	"slices"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// Layout is the layout of a box in an array: the element with index i is at At + Σ i_d·Strides_d, counted in
// elements. A stride may be 0 or negative.
type Layout struct {
	At      int
	Strides []int
}

// RowMajor returns the strides of an array of the shape.
func RowMajor(a *exec.Args, shape []int) []int {
	strides, n := exec.Make[int](a, len(shape)), 1
	for d := len(shape) - 1; d >= 0; d-- {
		strides[d] = n
		n *= shape[d]
	}
	return strides
}

// Strided fills dst with elements of src: the element of dst at an index is the one
// of src at the index times strides, which are counted in elements. A stride may be 0 or negative.
func Strided(a *exec.Args, dst, src array.Array, strides []int) {
	Move(a, dst.Type.Shape, dst, Layout{0, RowMajor(a, dst.Type.Shape)}, src, Layout{0, strides})
}

// Move copies a box of the shape from src to dst, which do not overlap and have
// the same element type. Two elements of the box must not have the same place in dst.
func Move(a *exec.Args, shape []int, dst array.Array, to Layout, src array.Array, from Layout) {
	for _, n := range shape {
		if n <= 0 {
			return
		}
	}
	b := boxOf(a, shape, to, from)
	switch dst.Type.DType.Size() {
	case 1:
		moveBits(a, b, Bits[uint8](dst), Bits[uint8](src))
	case 2:
		moveBits(a, b, Bits[uint16](dst), Bits[uint16](src))
	case 4:
		moveBits(a, b, Bits[uint32](dst), Bits[uint32](src))
	default:
		moveBits(a, b, Bits[uint64](dst), Bits[uint64](src))
	}
}

// box is a box of at least two dimensions, with its layouts in the destination and in
// the source.
type box struct {
	shape    []int
	to, from Layout
}

// boxOf returns the box of the shape, put in a form that is fast to copy. It joins
// neighbouring dimensions that both layouts treat as one. It moves the dimension along
// which the source is contiguous to one of the last two places, since moveBand copies
// these two dimensions square by square.
func boxOf(a *exec.Args, shape []int, to, from Layout) box {
	room := func() []int { return exec.Make[int](a, 2+len(shape))[:2] }
	b := box{room(), Layout{to.At, room()}, Layout{from.At, room()}}
	b.shape[0], b.shape[1] = 1, 1
	for d, n := range shape {
		last := len(b.shape) - 1
		switch t, s := to.Strides[d], from.Strides[d]; {
		case n == 1:
		case last > 1 && b.to.Strides[last] == t*n && b.from.Strides[last] == s*n:
			b.shape[last] *= n
			b.to.Strides[last], b.from.Strides[last] = t, s
		default:
			b.shape = append(b.shape, n)
			b.to.Strides, b.from.Strides = append(b.to.Strides, t), append(b.from.Strides, s)
		}
	}
	if last := len(b.shape) - 1; b.from.Strides[last] != 1 {
		if d := slices.Index(b.from.Strides, 1); d >= 0 {
			for _, l := range [3][]int{b.shape, b.to.Strides, b.from.Strides} {
				l[d], l[last-1] = l[last-1], l[d]
			}
		}
	}
	return b
}

// moveGrain is the least number of elements worth a goroutine.
const moveGrain = 1 << 17

// moveTile is the side of the squares, in elements, in which moveBand copies, so that
// the cache lines of both arrays stay in cache: 32 elements of 8 bytes are 4 lines.
const moveTile = 32

func moveBits[T any](a *exec.Args, b box, dst, src []T) {
	outer := len(b.shape) - 2
	n1, n2 := b.shape[outer], b.shape[outer+1]
	count := (n1 + moveTile - 1) / moveTile
	for _, n := range b.shape[:outer] {
		count *= n
	}
	grain := 1 + moveGrain/(min(n1, moveTile)*n2)
	exec.Share(a, count, grain, bands[T]{b, dst, src})
}

type bands[T any] struct {
	box
	dst, src []T
}

func (w *bands[T]) Piece(lo, hi int) { moveBands(&w.box, w.dst, w.src, lo, hi) }

// moveBands copies the bands lo to hi-1 of the box. A band has moveTile rows, or fewer
// at the end of the last but one dimension.
func moveBands[T any](b *box, dst, src []T, lo, hi int) {
	outer := len(b.shape) - 2
	n1, n2 := b.shape[outer], b.shape[outer+1]
	bands := (n1 + moveTile - 1) / moveTile
	for k := lo; k < hi; k++ {
		o, first := k/bands, k%bands*moveTile
		to, from := b.to.At, b.from.At
		for d := outer - 1; d >= 0; d-- {
			to += o % b.shape[d] * b.to.Strides[d]
			from += o % b.shape[d] * b.from.Strides[d]
			o /= b.shape[d]
		}
		t1, s1 := b.to.Strides[outer], b.from.Strides[outer]
		moveBand(dst, src, to+first*t1, from+first*s1, min(moveTile, n1-first), n2,
			t1, b.to.Strides[outer+1], s1, b.from.Strides[outer+1])
	}
}

// moveBand copies n1 rows of n2 elements. t1 is the stride of dst from row to row, t2
// its stride within a row; s1 and s2 are those of src.
func moveBand[T any](dst, src []T, to, from, n1, n2, t1, t2, s1, s2 int) {
	if t2 == 1 && s2 == 1 {
		for range n1 {
			copy(dst[to:to+n2], src[from:from+n2])
			to, from = to+t1, from+s1
		}
		return
	}
	if t2 == 1 && s2 == 0 {
		for range n1 {
			repeat(dst[to:to+n2], src[from])
			to, from = to+t1, from+s1
		}
		return
	}
	if t1 == 1 && s2 == 1 && t2 > 0 && s1 > 0 || t2 == 1 && s1 == 1 && t1 > 0 && s2 > 0 {
		if dst, ok := any(dst).([]uint32); ok {
			src := any(src).([]uint32)
			if s2 == 1 {
				pack.Transpose(dst[to:], t2, src[from:], s1, n1, n2)
			} else {
				pack.Transpose(dst[to:], t1, src[from:], s2, n2, n1)
			}
			return
		}
	}
	for at := 0; at < n2; at += moveTile {
		for i := range n1 {
			t, s := to+i*t1+at*t2, from+i*s1+at*s2
			for range min(moveTile, n2-at) {
				dst[t] = src[s]
				t, s = t+t2, s+s2
			}
		}
	}
}

// repeat sets every element of dst to x. It sets 16 elements one by one and then doubles
// what is set by copying.
func repeat[T any](dst []T, x T) {
	n := min(len(dst), 16)
	for i := range dst[:n] {
		dst[i] = x
	}
	for ; n > 0 && n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}

// Bits views the elements of a as unsigned integers of their size.
func Bits[T any](a array.Array) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(a.Bytes()))), len(a.Bytes())/int(unsafe.Sizeof(*new(T))))
}
