package kernel

import "sync"

// halfWorkspace is the memory of one product of 16-bit numbers, kept for the
// next one as a workspace is.
type halfWorkspace struct {
	work   halfWork
	config tileConfig
	edge   [32 * 32]float32 // a tile of C, of which a part is wanted
	// Copies of A and B, and sums, grown when needed.
	a, b, c, sums []float32
	pa, pb        []uint32
	square        [256]uint32
}

// A sync.Pool keeps what it holds between products.
var halfWorkspaces sync.Pool

func halfWorkspaceOf() *halfWorkspace {
	if w, ok := halfWorkspaces.Get().(*halfWorkspace); ok {
		return w
	}
	return &halfWorkspace{config: newTileConfig()}
}

func (w *halfWorkspace) release() {
	w.work = halfWork{} // the pool keeps no caller's memory alive
	halfWorkspaces.Put(w)
}
