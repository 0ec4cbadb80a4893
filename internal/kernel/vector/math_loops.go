package vector

import (
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// mathLoops holds one instruction set's loops over n elements of float32, for every n
// from 0 up. If a loop is nil, or the *mathLoops, Go code does the work. A result may be
// written over an argument. A result does not depend on an element's position or on its
// neighbours.
type mathLoops struct {
	unary  [unaries]func(n int, y, x *float32)
	binary [binaries]func(n int, z, x, y *float32)
	// circle is sin and cos. If |x| is 2⁵⁰ or more, it sets y to x, returning a number
	// other than 0, so that the caller computes these elements in Go.
	circle [2]func(n int, y, x *float32) uint32
	clamp  func(n int, y, x *float32, lo, hi float32)
	// products sets z = sum + x·y, rounding twice.
	products func(n int, z, sum, x, y *float32)

	// These add in the order of Sum. stride is in bytes.
	sum     func(n int, x *float32) float64
	dot     func(n int, x, y *float32) float64
	sumRows func(n int, sums *float64, x *float32, stride, rows int)
	sumTree func(n int, y *float32, sums *float64, stride int)

	// The largest and the smallest element, by the order of Maximum and Minimum.
	largest, smallest func(n int, x *float32) float32

	// For these, n is a positive multiple of 16.
	selects  func(n int, z, yes, no *float32, which *byte)
	compares [comparisons]func(n int, z *byte, x, y *float32)
}

// Loops of one argument.
const (
	loopNeg = iota
	loopAbs
	loopSign
	loopSquare
	loopSqrt
	loopFloor
	loopCeil
	loopRound
	loopRoundToEven
	loopRsqrt
	loopExpm1
	loopLog
	loopLog1p
	loopErf
	loopGELU
	loopGELUTanh
	// From int32, to int32, and to int32 with the order of the floats.
	loopFromInt
	loopToInt
	loopOrder
	unaries
)

// Loops of two arguments.
const (
	loopAdd = iota
	loopSub
	loopMul
	loopDiv
	loopMaximum
	loopMinimum
	loopGELUGrad
	loopGELUTanhGrad
	loopPow
	binaries
)

// Comparisons, in the order of mathLoops.compares.
const (
	isEqual = iota
	isUnequal
	isLess
	isAtMost
	isGreater
	isAtLeast
	comparisons
)

// selected returns the loops of the selected kind.
var selected = sync.OnceValue(func() *mathLoops {
	k, _ := kernel.Selected() // the error is reported when a program is run
	return mathOf(k.Vectors())
})

// mathLoopsOf returns the loops for elements of T, nil for float64.
func mathLoopsOf[T kernel.Float]() *mathLoops {
	if unsafe.Sizeof(T(0)) != 4 {
		return nil
	}
	return selected()
}

// first returns the address of x's first element.
func first[T kernel.Float](x []T) *float32 { return (*float32)(unsafe.Pointer(unsafe.SliceData(x))) }

// in1 sets y = f(x) with a loop, reporting whether there is one.
func (l *mathLoops) in1(loop int, n int, y, x *float32) bool {
	if l == nil || l.unary[loop] == nil {
		return false
	}
	l.unary[loop](n, y, x)
	return true
}

// in2 sets z = f(x, y) with a loop, reporting whether there is one.
func (l *mathLoops) in2(loop int, n int, z, x, y *float32) bool {
	if l == nil || l.binary[loop] == nil {
		return false
	}
	l.binary[loop](n, z, x, y)
	return true
}
