package vector

import (
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// mathLoops is the loops of one instruction set over float32 of any number n, from
// 0 up. A loop that is nil, and all of nil *mathLoops, are done in Go. The result may be an argument too; where
// an element stands, and what stands beside it, does not matter.
type mathLoops struct {
	unary  [unaries]func(n int, y, x *float32)
	binary [binaries]func(n int, z, x, y *float32)
	// circle is sin and cos: where |x| is 2⁵⁰ or more it gives x, and returns other
	// than 0.
	circle [2]func(n int, y, x *float32) uint32
	clamp  func(n int, y, x *float32, lo, hi float32)

	// Sums in the order of Sum. stride is in bytes.
	sum     func(n int, x *float32) float64
	dot     func(n int, x, y *float32) float64
	sumRows func(n int, sums *float64, x *float32, stride, rows int)
	sumTree func(n int, y *float32, sums *float64, stride int)

	// The largest and the smallest, as Maximum and Minimum have it.
	largest, smallest func(n int, x *float32) float32

	// These take a multiple of 16, not 0.
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
	// From and to int32, and to int32 in the order of floats.
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

// The order of the comparisons.
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
	k, _ := kernel.Selected() // the error is Selected's to tell
	return mathOf(k.Vectors())
})

// mathLoopsOf returns the loops for elements of T, nil for float64.
func mathLoopsOf[T kernel.Float]() *mathLoops {
	if unsafe.Sizeof(T(0)) != 4 {
		return nil
	}
	return selected()
}

// first is where x begins.
func first[T kernel.Float](x []T) *float32 { return (*float32)(unsafe.Pointer(unsafe.SliceData(x))) }

// in1 does y = f(x) with a loop if there is one.
func (l *mathLoops) in1(loop int, n int, y, x *float32) bool {
	if l == nil || l.unary[loop] == nil {
		return false
	}
	l.unary[loop](n, y, x)
	return true
}

// in2 does z = f(x, y) with a loop if there is one.
func (l *mathLoops) in2(loop int, n int, z, x, y *float32) bool {
	if l == nil || l.binary[loop] == nil {
		return false
	}
	l.binary[loop](n, z, x, y)
	return true
}
