package norm

import (
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// lineLoops holds one instruction set's loops over n elements of float32, computed in
// float64, for every n from 0 up. If a loop is nil, or the *lineLoops, Go code does the
// work.
type lineLoops struct {
	less           func(n int, y, x *float32, c, d float64)
	softmaxGrad    func(n int, z, x, y *float32, rows int) // n and rows are not 0
	logSoftmaxGrad func(n int, z, x, y *float32, c float64)

	// These write scores of a router in float64; see Sigmoids.
	sigmoids, rootSoftplus func(n int, y *float64, x *float32)
	softmaxRows            func(n int, y *float64, x *float32, rows int)
}

// selected returns the loops of the selected kind.
var selected = sync.OnceValue(func() *lineLoops {
	k, _ := kernel.Selected() // the error is reported when a program is run
	return lineLoopsFor(k.Vectors())
})

// lineLoopsOf returns the loops for elements of T, nil for float64.
func lineLoopsOf[T kernel.Float]() *lineLoops {
	if unsafe.Sizeof(T(0)) != 4 {
		return nil
	}
	return selected()
}

// first returns the address of x's first element.
func first[T kernel.Float](x []T) *float32 { return (*float32)(unsafe.Pointer(unsafe.SliceData(x))) }
