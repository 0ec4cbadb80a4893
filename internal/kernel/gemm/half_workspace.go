package gemm

import (
	"sync"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/kernel"
)

// halfWorkspace is the memory of one product of 16-bit numbers. It is kept for later
// products, like a Workspace.
type halfWorkspace struct {
	dry    *kernel.Dry // nil in a real run
	work   halfWork
	config tileConfig
	// A tile of C that is only partly in C, or that is rounded.
	edges []float32
	// Copies of A and B, and sums. They grow when needed.
	a, b, c, sums []float32
	pa, pb        []uint32
	square        [256]uint32
	// The engines and takers of the product.
	pairs        pairProduct
	widenedBrain widenedProduct[array.Brain]
	widenedHalf  widenedProduct[array.Half]
	roundedBrain rounded[array.Brain]
	roundedHalf  rounded[array.Half]
}

// widenedOf returns the workspace's engine for E.
func widenedOf[E Half](w *halfWorkspace) *widenedProduct[E] {
	if p, ok := any(&w.widenedBrain).(*widenedProduct[E]); ok {
		return p
	}
	return any(&w.widenedHalf).(*widenedProduct[E])
}

// roundedOf returns the taker rounding sums to c, or nil if c is float32.
func roundedOf[R Result](w *halfWorkspace, c []R, ldc int) taker {
	switch x := any(c).(type) {
	case []array.Brain:
		w.roundedBrain = rounded[array.Brain]{x, ldc}
		return &w.roundedBrain
	case []array.Half:
		w.roundedHalf = rounded[array.Half]{x, ldc}
		return &w.roundedHalf
	}
	return nil
}

// edge returns memory for a tile of C, aligned to a cache line: a block of a tile, 512
// deep, takes a tenth longer if rows of its sums cross lines.
func (w *halfWorkspace) edge() []float32 { return kernel.Take(w.dry, &w.edges, 32*32) }

// halfWorkspaces keeps workspaces between products.
var halfWorkspaces sync.Pool

func halfWorkspaceOf(dry *kernel.Dry) *halfWorkspace {
	if dry != nil {
		w := kernel.Space[halfWorkspace](dry)
		w.dry = dry
		return w
	}
	if w, ok := halfWorkspaces.Get().(*halfWorkspace); ok {
		return w
	}
	return &halfWorkspace{config: newTileConfig()}
}

func (w *halfWorkspace) release() {
	w.work = halfWork{} // the pool keeps no caller's memory alive
	w.pairs, w.widenedBrain, w.widenedHalf = pairProduct{}, widenedProduct[array.Brain]{}, widenedProduct[array.Half]{}
	w.roundedBrain, w.roundedHalf = rounded[array.Brain]{}, rounded[array.Half]{}
	if w.dry == nil {
		halfWorkspaces.Put(w)
	}
}
