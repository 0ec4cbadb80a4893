package runtime

import (
	goruntime "runtime"
	"sync"
	"sync/atomic"

	"github.com/gomoe/gomoe/array"
)

// piece is an array of one rank together with the block owning its memory. A nil block
// means memory of the Go heap, which the collector owns.
type piece struct {
	array.Array
	from *block
}

// block is memory visible to host and device. It is released by free, or when the block
// becomes unreachable. Readers of its bytes must hold the block meanwhile.
type block struct {
	mem     []byte
	heap    *heap
	give    func()
	dropped goruntime.Cleanup
	kept    atomic.Bool // the device may use the memory for ever
}

// free releases the memory. It may be called twice.
func (b *block) free() {
	if b != nil {
		b.dropped.Stop()
		b.give()
	}
}

// leak keeps the memory allocated for the rest of the process.
func (b *block) leak() {
	if b != nil {
		b.kept.Store(true)
		b.dropped.Stop()
	}
}

// heap allocates a session's memory visible to host and device. Several goroutines may
// use it at once.
type heap struct {
	device Device
	mu     sync.Mutex
	live   int64 // bytes
	least  int64 // live bytes after the last collection
}

// paceFrom is the number of bytes allocated before a garbage collection is forced.
const paceFrom = 256 << 20

// block returns n bytes with undefined contents.
func (h *heap) block(n int) (*block, error) {
	h.pace(int64(n))
	mem, free, err := h.device.Alloc(n)
	if err != nil {
		return nil, err
	}
	h.count(int64(n))
	b := &block{mem: mem, heap: h, give: sync.OnceFunc(func() {
		free()
		h.count(-int64(n))
	})}
	b.dropped = goruntime.AddCleanup(b, func(give func()) { give() }, b.give)
	return b, nil
}

// pace runs a garbage collection when the live blocks have doubled in bytes since the
// last one. Go's collector does not count these bytes: an unreachable array of a gigabyte
// does not by itself make it run.
func (h *heap) pace(n int64) {
	h.mu.Lock()
	due := h.live+n > max(paceFrom, 2*h.least)
	if due {
		h.least = h.live
	}
	h.mu.Unlock()
	if due {
		goruntime.GC()
	}
}

func (h *heap) count(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live += n
	h.least = min(h.least, h.live)
}

// knows reports whether the memory of p is visible to the session's device. A piece
// without bytes always is.
func (h *heap) knows(p piece) bool {
	return len(p.Bytes()) == 0 || p.from != nil && p.from.heap.device == h.device
}
