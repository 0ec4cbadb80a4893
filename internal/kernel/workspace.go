package kernel

import (
	"sync"
	"unsafe"
)

// workspace is the memory of one product. Products are many and short, so it
// is kept for the next one; nothing of a result depends on what it held.
type workspace[T Float] struct {
	rows  [gemmRows * gemmDeep]T // A's rows side by side: element r,p at p*gemmRows+r
	sums  [gemmRows * gemmCols]T
	panel []T // 256 by 256, made when first needed
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
