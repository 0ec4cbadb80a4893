package mtl

import (
	"fmt"
	"unsafe"
)

// Buffer is memory shared by the host and the GPU: storage mode shared. The caller owns it and must
// close it. A command buffer using it retains it until completed.
type Buffer struct {
	object
	bytes []byte
}

// Len is the buffer's length in bytes.
func (b *Buffer) Len() int { return len(b.bytes) }

// Bytes is the buffer's memory, valid until the buffer is closed. Bytes written by the GPU may be
// read only after waiting for the command buffer that wrote them.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Close releases the buffer. It also frees the memory, unless the buffer was made by BufferOver.
func (b *Buffer) Close() {
	b.bytes = nil
	b.close()
}

// Buffer returns a new Buffer of n bytes, at least one. Its contents are undefined.
func (d *Device) Buffer(n int) (*Buffer, error) {
	id, err := d.open("buffer")
	if err != nil {
		return nil, err
	}
	if err := d.holds("buffer", n); err != nil {
		return nil, err
	}
	return d.rt.buffer(d.rt.msg(id, d.rt.sel.newBuffer, uintptr(n), sharedStorage), n)
}

// holds returns an error unless n is positive and at most Facts.BufferLength.
func (d *Device) holds(op string, n int) error {
	switch {
	case n <= 0:
		return fmt.Errorf("mtl: %s: %d bytes, want more than 0", op, n)
	case uint64(n) > d.facts.BufferLength:
		return fmt.Errorf("mtl: %s: %d bytes, and the longest buffer of %s has %d (maxBufferLength); split the array, or place it on more ranks", op, n, d.facts.Name, d.facts.BufferLength)
	}
	return nil
}

// MTLResourceStorageModeShared, with default caching and default hazard tracking: a device's
// resources are tracked, a heap's resources are tracked if the heap is.
const sharedStorage = 0

// buffer wraps an object returned by newBufferWithLength.
func (rt *Runtime) buffer(id uintptr, n int) (*Buffer, error) {
	if id == 0 {
		return nil, fmt.Errorf("mtl: buffer: Metal has no memory for %d bytes", n)
	}
	b := &Buffer{bytes: unsafe.Slice((*byte)(pointer(rt.msg(id, rt.sel.contents))), n)}
	b.own(rt, id)
	return b, nil
}

// BufferOver returns a Buffer over existing memory, without a copy: an arena that other hardware
// may use too, such as RDMA verbs. Address and length must be multiples of Facts.Page, 16 KiB on
// Apple silicon. The memory must be mapped from the system, not on Go's heap. Its owner unmaps it
// after closing the Buffer and after every command buffer using it has completed. Metal is not
// asked to unmap it, because that would need a block.
func (d *Device) BufferOver(mem []byte) (*Buffer, error) {
	id, err := d.open("buffer over memory")
	if err != nil {
		return nil, err
	}
	p, page := unsafe.Pointer(unsafe.SliceData(mem)), d.facts.Page
	if err := d.holds("buffer over memory", len(mem)); err != nil {
		return nil, err
	}
	switch {
	case uintptr(p)%uintptr(page) != 0:
		return nil, fmt.Errorf("mtl: buffer over memory: it begins at %#x, want a multiple of the page, %d bytes; map it", uintptr(p), page)
	case len(mem)%page != 0:
		return nil, fmt.Errorf("mtl: buffer over memory: %d bytes, want a multiple of the page, %d bytes; round up", len(mem), page)
	}
	o := d.rt.msg(id, d.rt.sel.newBufferNoCopy, uintptr(p), uintptr(len(mem)), sharedStorage, 0)
	if o == 0 {
		return nil, fmt.Errorf("mtl: buffer over memory: Metal refuses %d bytes at %#x, want memory from mmap", len(mem), uintptr(p))
	}
	b := &Buffer{bytes: mem}
	b.own(d.rt, o)
	return b, nil
}
