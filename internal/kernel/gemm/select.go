package gemm

import (
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// kernels holds the functions of one kind. The portable kind has no sets.
type kernels struct {
	name     string
	f32, f64 *set
	bf16     *halfSet // nil if f32 multiplies bf16 as well
	// halfStreams are the streams of float32 for B of bf16 and for B of f16.
	halfStreams [2][3]func(*byte)
	// brainStrips multiply rows of float32 by columns of bf16; nil if there are none.
	brainStrips *stripSet
}

// selected returns the functions of the selected kind.
var selected = sync.OnceValue(func() kernels {
	k, _ := kernel.Selected() // the error is reported when a program is run
	return kernelsOf(k)
})

// set returns the functions for elements of `size` bytes, nil for portable loops.
func (k kernels) set(size uintptr) *set {
	if size == 4 {
		return k.f32
	}
	return k.f64
}

func selectedSet[T kernel.Float]() *set { return selected().set(unsafe.Sizeof(T(0))) }
