package metal

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/metal/mtl"
)

// memory is the host memory that the GPU sees.
type memory struct {
	mu      sync.RWMutex
	regions []region // by address; they do not overlap
}

// region is host memory that a buffer covers.
type region struct {
	from, to uintptr
	buffer   *mtl.Buffer
}

func address(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }

// add makes mem findable in buffer b until forget is called. forget may be called only
// once.
func (m *memory) add(b *mtl.Buffer, mem []byte) (forget func()) {
	r := region{address(mem), address(mem) + uintptr(len(mem)), b}
	m.mu.Lock()
	defer m.mu.Unlock()
	i, _ := m.search(r.from)
	m.regions = slices.Insert(m.regions, i, r)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		i, _ := m.search(r.from)
		m.regions = slices.Delete(m.regions, i, i+1)
	}
}

// search returns the index of the region that begins at address at, or where to insert
// it.
func (m *memory) search(at uintptr) (int, bool) {
	return slices.BinarySearchFunc(m.regions, at, func(r region, at uintptr) int { return cmp.Compare(r.from, at) })
}

// find returns the buffer that holds mem, and the offset of mem in it. The buffer is
// nil if the GPU does not see all of mem.
func (m *memory) find(mem []byte) (*mtl.Buffer, int) {
	at := address(mem)
	m.mu.RLock()
	defer m.mu.RUnlock()
	i, ok := m.search(at)
	if !ok {
		i--
	}
	if i < 0 || at+uintptr(len(mem)) > m.regions[i].to {
		return nil, 0
	}
	return m.regions[i].buffer, int(at - m.regions[i].from)
}

// pages returns mem extended to the end of its last page, all of which is mapped if any
// of it is.
func pages(mem []byte, page int) ([]byte, error) {
	if len(mem) == 0 || address(mem)%uintptr(page) != 0 {
		return nil, fmt.Errorf("metal: memory of %d bytes at %#x, want some at a multiple of the page, %d bytes", len(mem), address(mem), page)
	}
	return unsafe.Slice(unsafe.SliceData(mem), (len(mem)+page-1)/page*page), nil
}
