package kernel

import "unsafe"

// Float is an element type of computations. The 16-bit formats are widened first.
type Float interface{ ~float32 | ~float64 }

// Lanes is the number of float32 elements that the loops over vectors take at once, with
// every kind. Sums of exponentials and norms have as many partial sums.
const Lanes = 16

// Room returns the first n elements of buf. If buf is too short, Room first replaces it
// by a new one aligned to a cache line.
func Room[T any](buf *[]T, n int) []T {
	if len(*buf) < n {
		line := 64 / int(unsafe.Sizeof(*new(T)))
		x := make([]T, n+line)
		at := 0
		for uintptr(unsafe.Pointer(&x[at]))%64 != 0 {
			at++
		}
		*buf = x[at:]
	}
	return (*buf)[:n]
}

// Float32s and Float64s return x as a slice of its underlying element type. T must have
// that size.
func Float32s[T Float](x []T) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

func Float64s[T Float](x []T) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// Evenly divides n into the fewest equal pieces not longer than most, returning the
// length of a piece, rounded up to a multiple of unit.
func Evenly(n, most, unit int) int {
	pieces := (n + most - 1) / most
	return RoundUp((n+pieces-1)/pieces, unit)
}

// RoundUp returns the smallest multiple of unit that is not below n.
func RoundUp(n, unit int) int { return (n + unit - 1) / unit * unit }
