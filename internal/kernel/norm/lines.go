package norm

import (
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// lineLoops is the loops of one instruction set over float32 with float64 inside. A loop
// that is nil, and all of nil *lineLoops, are done in Go. n is any number, from 0 up.
type lineLoops struct {
	less           func(n int, y, x *float32, c float64)
	softmaxGrad    func(n int, z, x, y *float32, rows int) // neither is 0
	logSoftmaxGrad func(n int, z, x, y *float32, c float64)

	// Scores of a router, in float64; see Sigmoids.
	sigmoids, rootSoftplus func(n int, y *float64, x *float32)
	softmaxRows            func(n int, y *float64, x *float32, rows int)
}

// selected returns those of the kind that is selected.
var selected = sync.OnceValue(func() *lineLoops {
	k, _ := kernel.Selected() // the error is Selected's to tell
	return lineLoopsFor(k.Vectors())
})

// lineLoopsOf returns the loops for elements of T: for float64 there are none.
func lineLoopsOf[T kernel.Float]() *lineLoops {
	if unsafe.Sizeof(T(0)) != 4 {
		return nil
	}
	return selected()
}

// first is where x begins.
func first[T kernel.Float](x []T) *float32 { return (*float32)(unsafe.Pointer(unsafe.SliceData(x))) }
