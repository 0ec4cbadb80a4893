package runtime

import (
	"fmt"
	"sync"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
)

// holding owns the resources of a rank, released when its session is closed or becomes
// unreachable. It refers to neither the rank nor the session, so it does not keep them
// reachable.
type holding struct {
	mu    sync.Mutex
	queue Queue
	give  []func()
	lost  bool // the device may use the memory for ever
}

// also adds a function for close to call before the functions added earlier.
func (h *holding) also(free func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.give = append(h.give, free)
}

// close releases everything. It may be called twice.
func (h *holding) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost {
		return
	}
	if h.queue != nil {
		h.queue.Close() // nothing is running, and the queue is not used again
		h.queue = nil
	}
	for i := len(h.give) - 1; i >= 0; i-- {
		h.give[i]()
	}
	h.give = nil
}

// arena returns n bytes for the plan's temporaries. If the communicator shares memory
// between ranks and has n bytes left, the arena lies there, so that data is exchanged
// without an extra copy. A session's device always sees the arena.
func (r *rank) arena(n int, h *heap) ([]byte, error) {
	if m, ok := r.comm.(collective.Leaser); ok && n > 0 {
		if b, release, err := m.Lease(n); err == nil {
			free := func() {}
			if h != nil {
				free, err = h.device.Adopt(b)
			}
			if err == nil {
				r.hold.also(func() {
					free()
					release() // process exit releases this memory too
				})
				return b, nil
			}
			release()
		}
	}
	if h == nil || n == 0 {
		return lasting(graph.T(graph.U8, n)).Bytes(), nil
	}
	b, err := h.block(n)
	if err != nil {
		return nil, fmt.Errorf("runtime: rank %d: %d bytes on %s for plan %s: %w", r.comm.Rank(), n, h.device.Name(), r.plan.Name, err)
	}
	clear(b.mem)
	r.temps = b
	r.hold.also(b.free)
	return b.mem, nil
}

// close releases the rank's resources. No step may be running.
func (r *rank) close() {
	r.hold.close()
	if r.hold.lost {
		return
	}
	r.spare.drop()
	for i := range r.copies {
		r.copies[i].from.free()
		r.copies[i] = copied{}
	}
	clear(r.from)
}
