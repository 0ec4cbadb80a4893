package mtl

import (
	"sync"
	"unsafe"
)

// ResidencySet is buffers that stay where the GPU reads them. Without one, macOS may take away
// memory that the GPU has not used for a second, and brings it back before the next command
// buffer runs, which takes long where weights are many. A nil set has no buffers, and its methods
// do nothing. The caller owns it. Several goroutines may call its methods at once.
type ResidencySet struct {
	object
	most uint64 // bytes that the set may have: the recommended working set

	mu    sync.Mutex
	sizes map[uintptr]uint64 // bytes of the buffers by object
	bytes uint64             // of all of them
}

// ResidencySet returns a new set without buffers, or nil on a system older than macOS 15, which
// has none.
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

// Add puts an open buffer into the set, if it is one (not nil), unless the set would have more bytes than the GPU's
// recommended working set: such a buffer is brought to the GPU when it is used. The buffer must
// be removed before it is closed.
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

// Remove takes a buffer out of the set. Command buffers that use it keep it until they have run.
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

// send changes the set. Changes count when they are committed.
func (s *ResidencySet) send(change, buffer uintptr) {
	_ = s.rt.Pool(func() error {
		s.rt.msg(s.id.Load(), change, buffer)
		s.rt.msg(s.id.Load(), s.rt.sel.commit)
		return nil
	})
}

// Close releases the set, whose buffers have been removed.
func (s *ResidencySet) Close() {
	if s != nil {
		s.close()
	}
}
