package random

import (
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// loops holds one instruction set's loops over n elements, for every n from 0 up. If a
// loop is nil, or the *loops, Go code does the work.
type loops struct {
	// threefry writes the random bits of n counters from (hi, lo) on. The lower word
	// does not overflow.
	threefry func(n int, y *float32, k0, k1, hi, lo uint32)
	// uniform makes uniform numbers from random bits, see Uniform; normal makes normal
	// numbers from uniform ones, see Normal.
	uniform func(n int, y, x *float32, lo, span float32)
	normal  func(n int, y, x *float32)
	// round rounds n elements, a multiple of 16, to bf16, using as many halves of words,
	// see RoundBrain.
	round func(n int, y *uint16, x *float32, bits *uint32)
}

// selected returns the loops of the selected kind.
var selected = sync.OnceValue(func() *loops {
	k, _ := kernel.Selected() // the error is reported when a program is run
	return loopsFor(k.Vectors())
})

// loopsOf returns the loops for elements of T, nil for float64.
func loopsOf[T kernel.Float]() *loops {
	if unsafe.Sizeof(T(0)) != 4 {
		return nil
	}
	return selected()
}

// first returns the address of x's first element.
func first[T kernel.Float](x []T) *float32 { return (*float32)(unsafe.Pointer(unsafe.SliceData(x))) }
