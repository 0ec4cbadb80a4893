package mtl

import "fmt"

// Heap is preallocated memory for buffers, avoiding a system call per buffer. The caller owns it;
// its open buffers keep it alive.
type Heap struct {
	object
	size int
}

const hazardTracked = 2 // MTLHazardTrackingModeTracked

// Heap returns a Heap of at least n bytes, shared with the host. Dispatches using its buffers are
// ordered as if each buffer belonged to the device itself: Metal does not track heaps by default,
// so this one asks for tracking.
func (d *Device) Heap(n int) (*Heap, error) {
	id, err := d.open("heap")
	if err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, fmt.Errorf("mtl: heap: %d bytes, want more than 0", n)
	}
	rt := d.rt
	desc := rt.msg(rt.msg(rt.class.heapDescriptor, rt.sel.alloc), rt.sel.initialize)
	defer rt.msg(desc, rt.sel.release)
	rt.msg(desc, rt.sel.setSize, uintptr(n))
	rt.msg(desc, rt.sel.setStorageMode, sharedStorage)
	rt.msg(desc, rt.sel.setHazardTrackingMode, hazardTracked)
	var o uintptr
	_ = rt.Pool(func() error {
		o = rt.msg(id, rt.sel.newHeap, desc)
		return nil
	})
	if o == 0 {
		return nil, fmt.Errorf("mtl: heap: Metal has none of %d bytes that is shared with the host; macOS on Intel has no such heaps", n)
	}
	h := &Heap{size: n}
	h.own(rt, o)
	return h, nil
}

// HeapSize returns how many bytes of a Heap a Buffer of n bytes takes, and its
// alignment.
func (d *Device) HeapSize(n int) (size, align int) {
	s, a := d.rt.msg2(d.id.Load(), d.rt.sel.heapBufferSizeAndAlign, uintptr(n), sharedStorage)
	return int(s), int(a)
}

// Used returns the number of bytes occupied by the heap's buffers.
func (h *Heap) Used() int { return int(h.rt.msg(h.id.Load(), h.rt.sel.usedSize)) }

// Available returns the length of the longest buffer that still fits into the heap.
func (h *Heap) Available() int {
	const align = 256 // alignment of buffers
	return int(h.rt.msg(h.id.Load(), h.rt.sel.maxAvailableSize, align))
}

// Buffer returns a new Buffer of n bytes from the heap. Its contents are undefined.
func (h *Heap) Buffer(n int) (*Buffer, error) {
	id := h.id.Load()
	if id == 0 {
		return nil, fmt.Errorf("mtl: heap buffer: the heap is closed")
	}
	if n <= 0 {
		return nil, fmt.Errorf("mtl: heap buffer: %d bytes, want more than 0", n)
	}
	o := h.rt.msg(id, h.rt.sel.newBuffer, uintptr(n), sharedStorage)
	if o == 0 {
		return nil, fmt.Errorf("mtl: heap buffer: %d bytes, and the heap of %d has room for %d", n, h.size, h.Available())
	}
	return h.rt.buffer(o, n)
}

// Close releases the heap. Its memory stays allocated while buffers of the heap are open.
func (h *Heap) Close() { h.close() }
