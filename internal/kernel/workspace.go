package kernel

import (
	"sync"
	"unsafe"
)

// workspace is the memory of one product. Products are many and short, so it
// is kept for the next one; nothing of a result depends on what it held.
type workspace[T Float] struct {
	work work
	edge [8 * tileVecs * 16]T // a tile of C, of which a part is wanted
	// Copies of A and B, and sums, grown when needed.
	a, b, sums []T
	pieces     [2][]T // of results that are not kept
	gathered   []T    // rows
}

// room returns n elements of buf, which begin where a cache line does. It makes
// buf longer if it is too short.
func room[T Float](buf *[]T, n int) []T {
	if len(*buf) < n {
		line := 64 / int(unsafe.Sizeof(T(0)))
		x := make([]T, n+line)
		at := 0
		for uintptr(unsafe.Pointer(&x[at]))%64 != 0 {
			at++
		}
		*buf = x[at:]
	}
	return (*buf)[:n]
}

// One pool per element type, as a package variable cannot have a type parameter.
var workspaces32, workspaces64 sync.Pool

func pool[T Float]() *sync.Pool {
	if unsafe.Sizeof(T(0)) == 4 {
		return &workspaces32
	}
	return &workspaces64
}

// workspaceOf returns a workspace that is nobody else's until it is released.
func workspaceOf[T Float]() *workspace[T] {
	if w, ok := pool[T]().Get().(*workspace[T]); ok {
		return w
	}
	return new(workspace[T])
}

func (w *workspace[T]) release() { pool[T]().Put(w) }
