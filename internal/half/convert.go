package half

import "unsafe"

// vector is the number of elements converted at once.
const vector = 16

// WidenBrain sets dst[i] to src[i] for the first n elements, returning n, which is at
// most the length of src. dst must be at least as long as src.
func WidenBrain[H ~uint16](dst []float32, src []H) int {
	return convert(widenBrain, 1, len(src), dst, 0, src, 0)
}

// WidenHalf is WidenBrain for binary16.
func WidenHalf[H ~uint16](dst []float32, src []H) int {
	return convert(widenHalf, 1, len(src), dst, 0, src, 0)
}

// NarrowBrain sets dst[i] to src[i] rounded to bf16, to nearest and ties to even, for the
// first n elements, returning n, which is at most the length of src. dst must be at least
// as long as src.
func NarrowBrain[H ~uint16](dst []H, src []float32) int {
	return convert(narrowBrain, 1, len(src), dst, 0, src, 0)
}

// NarrowHalf is NarrowBrain for binary16.
func NarrowHalf[H ~uint16](dst []H, src []float32) int {
	return convert(narrowHalf, 1, len(src), dst, 0, src, 0)
}

// WidenE4M3 is WidenBrain for f8_e4m3.
func WidenE4M3[B ~uint8](dst []float32, src []B) int {
	return convert(widenE4M3, 1, len(src), dst, 0, src, 0)
}

// WidenE5M2 is WidenBrain for f8_e5m2.
func WidenE5M2[B ~uint8](dst []float32, src []B) int {
	return convert(widenE5M2, 1, len(src), dst, 0, src, 0)
}

// NarrowE4M3 sets dst[i] to src[i] rounded to f8_e4m3 like array.E4M3Of, for the first n
// elements, returning n, which is at most the length of src. dst must be at least as long
// as src.
func NarrowE4M3[B ~uint8](dst []B, src []float32) int {
	return convert(narrowE4M3, 1, len(src), dst, 0, src, 0)
}

// NarrowE5M2 is NarrowE4M3 for f8_e5m2.
func NarrowE5M2[B ~uint8](dst []B, src []float32) int {
	return convert(narrowE5M2, 1, len(src), dst, 0, src, 0)
}

// WidenBrainRows is WidenBrain for rows of n numbers. Rows begin pitch numbers apart in
// dst and stride numbers apart in src. It returns the number of elements converted in
// each row.
func WidenBrainRows[H ~uint16](rows, n int, dst []float32, pitch int, src []H, stride int) int {
	return convert(widenBrain, rows, n, dst, pitch, src, stride)
}

// WidenHalfRows is WidenBrainRows for binary16.
func WidenHalfRows[H ~uint16](rows, n int, dst []float32, pitch int, src []H, stride int) int {
	return convert(widenHalf, rows, n, dst, pitch, src, stride)
}

// NarrowBrainRows is NarrowBrain for rows, as WidenBrainRows is WidenBrain.
func NarrowBrainRows[H ~uint16](rows, n int, dst []H, pitch int, src []float32, stride int) int {
	return convert(narrowBrain, rows, n, dst, pitch, src, stride)
}

// NarrowHalfRows is NarrowBrainRows for binary16.
func NarrowHalfRows[H ~uint16](rows, n int, dst []H, pitch int, src []float32, stride int) int {
	return convert(narrowHalf, rows, n, dst, pitch, src, stride)
}

// WidenQ8Rows converts rows of q8_0 blocks in src to rows of n elements in dst. The rows
// of dst have a stride of pitch elements, the rows of src a stride of stride bytes. n is
// a multiple of 32. It returns the number of elements converted in each row.
func WidenQ8Rows(rows, n int, dst []float32, pitch int, src []byte, stride int) int {
	if n <= 0 || rows <= 0 {
		return 0
	}
	// Assembly does not check bounds.
	_, _ = dst[(rows-1)*pitch:][:n], src[(rows-1)*stride:][:n/32*34]
	return widenQ8.run(block{rows, n, bytes(dst), bytes(src), uintptr(4 * pitch), uintptr(stride)})
}

// Vectors reports whether this processor can convert in vectors.
func Vectors() bool { return vectors() }

// conversion names a loop in assembly.
type conversion uint8

const (
	widenBrain conversion = iota
	widenHalf
	narrowBrain
	narrowHalf
	widenE4M3
	widenE5M2
	widenQ8
	narrowE4M3
	narrowE5M2
)

// block is the argument of a loop; strides are in bytes. There is at least one
// row, and each row is one or more whole vectors.
type block struct {
	rows, n       int
	dst, src      *byte
	pitch, stride uintptr
}

// convert runs a loop over the whole vectors of rows of n numbers.
func convert[D, S any](c conversion, rows, n int, dst []D, pitch int, src []S, stride int) int {
	n &^= vector - 1
	if n <= 0 || rows <= 0 {
		return 0
	}
	// Assembly does not check bounds.
	_, _ = dst[(rows-1)*pitch:][:n], src[(rows-1)*stride:][:n]
	return c.run(block{rows, n, bytes(dst), bytes(src), uintptr(pitch) * unsafe.Sizeof(dst[0]), uintptr(stride) * unsafe.Sizeof(src[0])})
}

func bytes[E any](x []E) *byte { return (*byte)(unsafe.Pointer(unsafe.SliceData(x))) }
