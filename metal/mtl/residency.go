package mtl

import (
	"sync"
	"unsafe"
)

// ResidencySet is a set of buffers kept resident for the GPU. Without one, macOS may page out memory that the GPU
// has not used for a second. Paging it in again before the next command buffer is slow for models with many
// weights. A nil set has no buffers, and its methods do nothing. The caller owns it. Several goroutines may call
// its methods at once.
type ResidencySet struct {
	object
	most uint64 // limit of the set in bytes: the recommended working set

	mu    sync.Mutex
	sizes map[uintptr]uint64 // bytes of the buffers by object
	bytes uint64             // sum of sizes
}

// ResidencySet returns a new set without buffers, or nil on systems older than macOS 15, which have no residency
// sets.
func (d *Device) ResidencySet() (*ResidencySet, error) {
	id, err := d.open("residency set")
	if err != nil {
		return nil, err
	}
	rt := d.rt
	if rt.class.residencyDescriptor == 0 {
		return nil, nil
	}
	s := &ResidencySet{most: d.facts.WorkingSet, sizes: map[uintptr]uint64{}}
	err = rt.Pool(func() error {
		desc := rt.msg(rt.msg(rt.class.residencyDescriptor, rt.sel.alloc), rt.sel.initialize)
		defer rt.msg(desc, rt.sel.release)
		failure := new(uintptr)
		o := rt.msg(id, rt.sel.newResidencySet, desc, uintptr(unsafe.Pointer(failure)))
		if o == 0 {
			return rt.failure("residency set", *failure)
		}
		s.own(rt, o)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Add puts an open buffer into the set, ignoring nil. If the set would exceed the GPU's recommended working set,
// the buffer is left out, and becomes resident when it is used. The buffer must be removed before it is closed.
func (s *ResidencySet) Add(b *Buffer) {
	if s == nil || b == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id, n := b.id.Load(), uint64(b.Len())
	if n > s.most-s.bytes {
		return
	}
	s.sizes[id] = n
	s.bytes += n
	s.send(s.rt.sel.addAllocation, id)
	s.rt.msg(s.id.Load(), s.rt.sel.requestResidency)
}

// Remove takes a buffer out of the set. Command buffers using it retain it until they have run.
func (s *ResidencySet) Remove(b *Buffer) {
	if s == nil || b == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := b.id.Load()
	n, ok := s.sizes[id]
	if !ok {
		return
	}
	delete(s.sizes, id)
	s.bytes -= n
	s.send(s.rt.sel.removeAllocation, id)
}

// send changes the set. Changes take effect on commit.
func (s *ResidencySet) send(change, buffer uintptr) {
	_ = s.rt.Pool(func() error {
		s.rt.msg(s.id.Load(), change, buffer)
		s.rt.msg(s.id.Load(), s.rt.sel.commit)
		return nil
	})
}

// Close releases the set. Its buffers must have been removed.
func (s *ResidencySet) Close() {
	if s != nil {
		s.close()
	}
}
