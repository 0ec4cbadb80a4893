package ring

import (
	"cmp"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// combine returns what sets dst to dst combined with src, element by element:
// dst are this rank's, src those that have come. Equal numbers, as 0 and -0 are
// for all_max, stay what dst has. src lies at a multiple of 8 bytes.
func combine(op string, d graph.DType) func(dst, src []byte) {
	switch d {
	case graph.U8:
		return number[uint8](op)
	case graph.U32:
		return number[uint32](op)
	case graph.I32:
		return number[int32](op)
	case graph.I64:
		return number[int64](op)
	case graph.F32:
		return number[float32](op)
	case graph.F64:
		return number[float64](op)
	case graph.F16:
		return short(op, array.WidenHalf, array.NarrowHalf)
	case graph.BF16:
		return short(op, array.WidenBrain, array.NarrowBrain)
	}
	panic("ring: elements of " + d.String()) // refused by reduce
}

func number[E cmp.Ordered](op string) func(dst, src []byte) {
	f := map[string]func(dst, src []E){allSum: add[E], allMax: largest[E], allMin: smallest[E]}[op]
	return func(dst, src []byte) {
		if aligned[E](dst) {
			f(elements[E](dst), elements[E](src))
			return
		}
		var block [1024]E
		own := unsafe.Slice((*byte)(unsafe.Pointer(&block)), len(block)*int(unsafe.Sizeof(block[0])))
		for len(dst) > 0 {
			n := copy(own, dst)
			f(elements[E](own[:n]), elements[E](src[:n]))
			copy(dst, own[:n])
			dst, src = dst[n:], src[n:]
		}
	}
}

// short combines numbers of 2 bytes in f32 and rounds.
func short[E array.Half | array.Brain](op string, widen func([]float32, []E), narrow func([]E, []float32)) func(dst, src []byte) {
	f := map[string]func(dst, src []float32){allSum: add[float32], allMax: largest[float32], allMin: smallest[float32]}[op]
	return func(dst, src []byte) {
		var own [1024]E
		var x, y [1024]float32
		for len(dst) > 0 {
			bytes := unsafe.Slice((*byte)(unsafe.Pointer(&own)), 2*len(own))
			n := copy(bytes, dst)
			widen(x[:n/2], own[:n/2])
			widen(y[:n/2], elements[E](src[:n]))
			f(x[:n/2], y[:n/2])
			narrow(own[:n/2], x[:n/2])
			copy(dst, bytes[:n])
			dst, src = dst[n:], src[n:]
		}
	}
}

func add[E cmp.Ordered](dst, src []E) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] += src[i]
	}
}

func largest[E cmp.Ordered](dst, src []E) {
	src = src[:len(dst)]
	for i, x := range src {
		if x > dst[i] || x != x {
			dst[i] = x
		}
	}
}

func smallest[E cmp.Ordered](dst, src []E) {
	src = src[:len(dst)]
	for i, x := range src {
		if x < dst[i] || x != x {
			dst[i] = x
		}
	}
}

func aligned[E any](b []byte) bool {
	var e E
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%unsafe.Alignof(e) == 0
}

func elements[E any](b []byte) []E {
	var e E
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(e)))
}
