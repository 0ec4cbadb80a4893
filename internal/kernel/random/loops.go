package random

import (
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// loops is the loops of one instruction set, of any number n from 0 up. A loop that is
// nil, and all of nil *loops, are done in Go.
type loops struct {
	// Random bits of n counters, of which the lower word does not overflow.
	threefry func(n int, y *float32, k0, k1, hi, lo uint32)
	// Numbers made of them, see Uniform, and of these, see Normal.
	uniform func(n int, y, x *float32, lo, span float32)
	normal  func(n int, y, x *float32)
}

// selected returns those of the kind that is selected.
var selected = sync.OnceValue(func() *loops {
	k, _ := kernel.Selected() // the error is Selected's to tell
	return loopsFor(k.Vectors())
})

// loopsOf returns the loops for elements of T: for float64 there are none.
func loopsOf[T kernel.Float]() *loops {
	if unsafe.Sizeof(T(0)) != 4 {
		return nil
	}
	return selected()
}

// first is where x begins.
func first[T kernel.Float](x []T) *float32 { return (*float32)(unsafe.Pointer(unsafe.SliceData(x))) }
