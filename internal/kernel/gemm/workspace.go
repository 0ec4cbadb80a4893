package gemm

import (
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// Workspace is the memory of one product. Products are many and short, so it is kept for
// later products. Results do not depend on its old contents.
type Workspace[T kernel.Float] struct {
	Dry  *kernel.Dry // nil in a real run
	work work
	edge [8 * tileVecs * 16]T // a tile at the edge of C, only partly in C
	// Copies of A and B, and sums. They grow when needed.
	a, b, sums []T
}

// There is a pool for each element type, because a package variable cannot have a type
// parameter.
var workspaces32, workspaces64 sync.Pool

func pool[T kernel.Float]() *sync.Pool {
	if unsafe.Sizeof(T(0)) == 4 {
		return &workspaces32
	}
	return &workspaces64
}

// workspaceOf returns a workspace for exclusive use until it is released.
func workspaceOf[T kernel.Float](dry *kernel.Dry) *Workspace[T] {
	if dry != nil {
		w := kernel.Space[Workspace[T]](dry)
		w.Dry = dry
		return w
	}
	if w, ok := pool[T]().Get().(*Workspace[T]); ok {
		return w
	}
	return new(Workspace[T])
}

func (w *Workspace[T]) release() {
	if w.Dry == nil {
		pool[T]().Put(w)
	}
}
