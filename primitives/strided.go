package primitives

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
)

// strided fills dst, in row-major order, with the elements of src that lie at
// off plus the index times strides, all in elements. A stride may be 0 or
// negative.
func strided(dst, src array.Array, strides []int, off int) {
	if dst.Type.Len() == 0 {
		return
	}
	switch size := dst.Type.DType.Size(); size {
	case 1:
		walk(bits[uint8](dst), bits[uint8](src), dst.Type.Shape, strides, off)
	case 2:
		walk(bits[uint16](dst), bits[uint16](src), dst.Type.Shape, strides, off)
	case 4:
		walk(bits[uint32](dst), bits[uint32](src), dst.Type.Shape, strides, off)
	default:
		walk(bits[uint64](dst), bits[uint64](src), dst.Type.Shape, strides, off)
	}
}

func walk[T any](dst, src []T, shape, strides []int, off int) {
	if len(shape) == 0 {
		dst[0] = src[off]
		return
	}
	last := len(shape) - 1
	n, s := shape[last], strides[last]
	idx := make([]int, last)
	for at := 0; at < len(dst); at += n {
		o := off
		for d, i := range idx {
			o += i * strides[d]
		}
		switch {
		case s == 1:
			copy(dst[at:at+n], src[o:o+n])
		default:
			for i := range n {
				dst[at+i] = src[o]
				o += s
			}
		}
		for d := last - 1; d >= 0; d-- {
			if idx[d]++; idx[d] < shape[d] {
				break
			}
			idx[d] = 0
		}
	}
}

// bits views the elements of a as unsigned integers of their size.
func bits[T any](a array.Array) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(a.Bytes()))), a.Type.Len())
}
