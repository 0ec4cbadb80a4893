package runtime

import (
	goruntime "runtime"
	"sync"

	"github.com/gomoe/gomoe/array"
)

// piece is an array of one rank with what keeps its memory: nil is the process's own,
// which lives as long as somebody refers to it.
type piece struct {
	array.Array
	from *block
}

// block is memory that host and device see. It is given back when it is freed, or when
// nobody reaches the block any more: whoever reads its bytes holds the block meanwhile.
type block struct {
	mem     []byte
	heap    *heap
	give    func()
	dropped goruntime.Cleanup
}

// free gives the memory back. It may be called twice.
func (b *block) free() {
	if b != nil {
		b.dropped.Stop()
		b.give()
	}
}

// leak leaves the memory allocated for good.
func (b *block) leak() {
	if b != nil {
		b.dropped.Stop()
	}
}

// heap is a session's memory that host and device see. It may be used by several
// goroutines.
type heap struct {
	device Device
	mu     sync.Mutex
	live   int64 // bytes
	least  int64 // of live since garbage was last collected
}

// paceFrom is how many bytes are allocated before garbage is collected for them.
const paceFrom = 256 << 20

// block returns n bytes, which are anything.
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

// pace collects garbage when the blocks have twice the bytes that were left last time.
// The collector does not see these bytes: to it an array of a gigabyte, which nobody
// reaches any more, is not worth a collection.
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

// knows reports whether the session's device sees p, which needs no memory to be seen
// if it has no bytes.
func (h *heap) knows(p piece) bool {
	return len(p.Bytes()) == 0 || p.from != nil && p.from.heap.device == h.device
}
