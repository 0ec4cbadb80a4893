package metal

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/metal/mtl"
)

// memory is the host memory visible to the GPU.
type memory struct {
	mu      sync.RWMutex
	regions []region // sorted by address; memory adopted several times is in several regions
}

// region is host memory covered by a buffer, starting at an offset.
type region struct {
	from, to uintptr
	buffer   *mtl.Buffer
	offset   int
}

func address(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }

// add registers mem, which lies at an offset of buffer b, until forget is called. forget may be
// called only once.
func (m *memory) add(b *mtl.Buffer, mem []byte, offset int) (forget func()) {
	r := region{address(mem), address(mem) + uintptr(len(mem)), b, offset}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.regions = slices.Insert(m.regions, m.behind(r.from), r)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		i := m.behind(r.from) - 1
		for m.regions[i] != r {
			i--
		}
		m.regions = slices.Delete(m.regions, i, i+1)
	}
}

// behind returns the index of the first region starting after address at.
func (m *memory) behind(at uintptr) int {
	i, _ := slices.BinarySearchFunc(m.regions, at+1, func(r region, at uintptr) int { return cmp.Compare(r.from, at) })
	return i
}

// find returns the buffer holding mem, and the offset of mem in it. The buffer is nil if the GPU
// does not see all of mem.
func (m *memory) find(mem []byte) (*mtl.Buffer, int) {
	at := address(mem)
	m.mu.RLock()
	defer m.mu.RUnlock()
	for i := m.behind(at) - 1; i >= 0; i-- {
		if r := &m.regions[i]; at+uintptr(len(mem)) <= r.to {
			return r.buffer, r.offset + int(at-r.from)
		}
	}
	return nil, 0
}

// readAt is the alignment of memory read by the GPU: kernels read vectors of this many bytes.
const readAt = 16

// pages returns the pages containing mem, all of which are mapped if any of them is, and the offset
// of mem in them.
func pages(mem []byte, page int) (whole []byte, offset int, err error) {
	if len(mem) == 0 || address(mem)%readAt != 0 {
		return nil, 0, fmt.Errorf("metal: memory of %d bytes at %#x, want some at a multiple of %d bytes", len(mem), address(mem), readAt)
	}
	offset = int(address(mem) % uintptr(page))
	first := (*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(mem)), -offset))
	return unsafe.Slice(first, (offset+len(mem)+page-1)/page*page), offset, nil
}
