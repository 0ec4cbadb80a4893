package vector

import (
	"math"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// Select sets z to yes where which is true, and to no elsewhere. All slices have the same
// length. z may be yes or no.
func Select[T uint8 | uint16 | uint32 | uint64](z, yes, no []T, which []bool) {
	l := (*mathLoops)(nil)
	if unsafe.Sizeof(T(0)) == 4 {
		l = selected()
	}
	choice(l, z, yes, no, which)
}

func choice[T uint8 | uint16 | uint32 | uint64](l *mathLoops, z, yes, no []T, which []bool) {
	n := len(z)
	yes, no, which = yes[:n], no[:n], which[:n]
	whole := 0
	if l != nil && l.selects != nil && n >= kernel.Lanes {
		whole = n &^ (kernel.Lanes - 1)
		l.selects(whole, firstWord(z), firstWord(yes), firstWord(no), (*byte)(unsafe.Pointer(unsafe.SliceData(which))))
	}
	for i := whole; i < n; i++ {
		v := no[i]
		if which[i] {
			v = yes[i]
		}
		z[i] = v
	}
}

// firstWord is first for non-float elements.
func firstWord[T any](x []T) *float32 { return (*float32)(unsafe.Pointer(unsafe.SliceData(x))) }

// Equal, Unequal, Less, AtMost, Greater and AtLeast set z to x == y, x != y, x < y, x <=
// y, x > y and x >= y, element by element. All slices have the same length.
func Equal[T kernel.Float](z []bool, x, y []T)   { compare(mathLoopsOf[T](), isEqual, z, x, y) }
func Unequal[T kernel.Float](z []bool, x, y []T) { compare(mathLoopsOf[T](), isUnequal, z, x, y) }
func Less[T kernel.Float](z []bool, x, y []T)    { compare(mathLoopsOf[T](), isLess, z, x, y) }
func AtMost[T kernel.Float](z []bool, x, y []T)  { compare(mathLoopsOf[T](), isAtMost, z, x, y) }
func Greater[T kernel.Float](z []bool, x, y []T) { compare(mathLoopsOf[T](), isGreater, z, x, y) }
func AtLeast[T kernel.Float](z []bool, x, y []T) { compare(mathLoopsOf[T](), isAtLeast, z, x, y) }

func compare[T kernel.Float](l *mathLoops, which int, z []bool, x, y []T) {
	n := len(z)
	x, y = x[:n], y[:n]
	if l != nil && l.compares[which] != nil && n >= kernel.Lanes {
		whole := n &^ (kernel.Lanes - 1)
		l.compares[which](whole, (*byte)(unsafe.Pointer(unsafe.SliceData(z))), first(x), first(y))
		z, x, y = z[whole:], x[whole:], y[whole:]
	}
	switch which {
	case isEqual:
		for i := range z {
			z[i] = x[i] == y[i]
		}
	case isUnequal:
		for i := range z {
			z[i] = x[i] != y[i]
		}
	case isLess:
		for i := range z {
			z[i] = x[i] < y[i]
		}
	case isAtMost:
		for i := range z {
			z[i] = x[i] <= y[i]
		}
	case isGreater:
		for i := range z {
			z[i] = x[i] > y[i]
		}
	default:
		for i := range z {
			z[i] = x[i] >= y[i]
		}
	}
}

// FromInt sets y = x, rounded to the nearest float32, ties to even.
func FromInt(y []float32, x []int32) { fromInt(selected(), y, x) }

func fromInt(l *mathLoops, y []float32, x []int32) {
	y = y[:len(x)]
	if l.in1(loopFromInt, len(x), first(y), firstWord(x)) {
		return
	}
	for i, x := range x {
		y[i] = float32(x)
	}
}

// ToInt sets y to x truncated. An out-of-range x gives the nearest int32, a NaN gives 0.
func ToInt(y []int32, x []float32) { toInt(selected(), y, x) }

func toInt(l *mathLoops, y []int32, x []float32) {
	y = y[:len(x)]
	if l.in1(loopToInt, len(x), firstWord(y), first(x)) {
		return
	}
	for i, x := range x {
		switch {
		case x != x:
			y[i] = 0
		case x >= 1<<31:
			y[i] = math.MaxInt32
		case x <= -1<<31:
			y[i] = math.MinInt32
		default:
			y[i] = int32(x)
		}
	}
}

// Order sets y to integers that have the order of x: 0 is above -0, and every NaN gives
// the largest integer.
func Order(y []int32, x []float32) { order(selected(), y, x) }

func order(l *mathLoops, y []int32, x []float32) {
	y = y[:len(x)]
	if l.in1(loopOrder, len(x), firstWord(y), first(x)) {
		return
	}
	for i, x := range x {
		b := int32(math.Float32bits(x))
		y[i] = b ^ b>>31&math.MaxInt32
		if x != x {
			y[i] = math.MaxInt32
		}
	}
}
