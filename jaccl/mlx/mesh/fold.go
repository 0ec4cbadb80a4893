package mesh

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// reduction is what JACCL does with two elements.
type reduction uint8

const (
	sum reduction = iota
	largest
	smallest
)

// folder reduces buffers of elements as JACCL does: total becomes total op in, one
// element at a time, in the element's own type. f16 and bf16 are added in f32 and
// rounded at once.
//
// Source: SumOp, MaxOp and MinOp in MLX's mlx/distributed/jaccl/lib/jaccl.
type folder struct {
	a, b   [foldBlock]float32
	copies [2][]uint64 // see aligned
}

// foldBlock is how many elements of 2 bytes are widened at a time.
const foldBlock = 1024

// fold reduces two buffers of equal length, of whole elements.
func (f *folder) fold(op reduction, d graph.DType, total, in []byte) {
	t, i := f.aligned(0, total), f.aligned(1, in)
	switch d {
	case graph.F64:
		foldNumbers[float64](op, t, i)
	case graph.F32:
		foldNumbers[float32](op, t, i)
	case graph.I64:
		foldNumbers[int64](op, t, i)
	case graph.I32:
		foldNumbers[int32](op, t, i)
	case graph.U32:
		foldNumbers[uint32](op, t, i)
	case graph.U8:
		foldNumbers[uint8](op, t, i)
	case graph.Bool:
		foldBools(op, t, i)
	case graph.BF16:
		foldWide(f, op, t, i, array.WidenBrain, array.NarrowBrain)
	case graph.F16:
		foldWide(f, op, t, i, array.WidenHalf, array.NarrowHalf)
	}
	if unsafe.SliceData(t) != unsafe.SliceData(total) {
		copy(total, t)
	}
}

// aligned returns b, or a copy of it where it does not begin at a multiple of 8 bytes,
// which not every processor loads elements from.
func (f *folder) aligned(which int, b []byte) []byte {
	if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 == 0 {
		return b
	}
	words := (len(b) + 7) / 8
	if len(f.copies[which]) < words {
		f.copies[which] = make([]uint64, words)
	}
	c := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f.copies[which]))), len(b))
	copy(c, b)
	return c
}

type number interface {
	float64 | float32 | int64 | int32 | uint32 | uint8
}

func elements[E number | array.Brain | array.Half](b []byte) []E {
	var e E
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(e)))
}

func foldNumbers[E number](op reduction, total, in []byte) {
	t, x := elements[E](total), elements[E](in)
	x = x[:len(t)]
	switch op {
	case sum:
		for i := range t {
			t[i] += x[i]
		}
	case largest: // not max, which is of another mind about NaN and -0
		for i := range t {
			if !(t[i] > x[i]) {
				t[i] = x[i]
			}
		}
	case smallest:
		for i := range t {
			if !(t[i] < x[i]) {
				t[i] = x[i]
			}
		}
	}
}

func foldBools(op reduction, total, in []byte) {
	for i := range total {
		if op == smallest {
			total[i] &= in[i]
		} else {
			total[i] |= in[i]
		}
	}
}

func foldWide[E array.Brain | array.Half](f *folder, op reduction, total, in []byte, widen func([]float32, []E), narrow func([]E, []float32)) {
	t, x := elements[E](total), elements[E](in)
	for len(t) > 0 {
		n := min(len(t), foldBlock)
		a, b := f.a[:n], f.b[:n]
		widen(a, t[:n])
		widen(b, x[:n])
		switch op {
		case sum:
			for i := range a {
				a[i] += b[i]
			}
			narrow(t[:n], a)
		case largest:
			for i := range a {
				if !(a[i] > b[i]) {
					t[i] = x[i]
				}
			}
		case smallest:
			for i := range a {
				if !(a[i] < b[i]) {
					t[i] = x[i]
				}
			}
		}
		t, x = t[n:], x[n:]
	}
}
