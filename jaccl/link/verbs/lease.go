package verbs

import (
	"fmt"
	"slices"
	"sync"

	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/rdma"
)

var _ link.Lender = (*Link)(nil)

// lot is memory that is registered with all devices.
type lot struct {
	r       *rdma.Region
	regions int // that it takes of a device
}

const (
	// spareLots is how many ended leases stay registered. What is registered is memory
	// that the system can not use otherwise.
	spareLots = 8
	// maxSpan is how far apart the regions of a lot begin. Each covers as much, and a
	// message more, so that every message lies within one. Those above 4 GiB are said to
	// be damaged on Thunderbolt.
	maxSpan uintptr = 3 << 30
)

// Lease implements link.Lender. The memory begins at a page and is registered with every
// device: what lies in it, at whatever byte, is sent and received without a copy. A lease
// takes a memory region of every device, and another for every further 3 GiB; if one has
// no more, the error says how many it has. Leases of one size are used again.
func (l *Link) Lease(n int) ([]byte, func() error, error) {
	a, err := l.obtain(n)
	if err != nil {
		return nil, nil, fmt.Errorf("rdma: lease of %d bytes: %w", n, err)
	}
	var once sync.Once
	release := func() error {
		once.Do(func() { l.release(a) })
		return nil
	}
	return a.r.B[:n:n], release, nil
}

// Alloc returns n bytes as Lease does, which are released with the link.
func (l *Link) Alloc(n int) ([]byte, error) {
	a, err := l.obtain(n)
	if err != nil {
		return nil, fmt.Errorf("rdma: arena of %d bytes: %w", n, err)
	}
	l.giving.Lock()
	defer l.giving.Unlock()
	if l.closed {
		a.r.Close()
		return nil, l.usable()
	}
	l.arenas = append(l.arenas, a)
	return a.r.B[:n:n], nil
}

// obtain returns a lot for n bytes, zeroed: one that is free, or a new one.
func (l *Link) obtain(n int) (*lot, error) {
	if n < 0 {
		return nil, fmt.Errorf("%d bytes, want none or more", n)
	}
	l.giving.Lock()
	defer l.giving.Unlock()
	if err := l.usable(); err != nil { // or something may still be received into what is free
		return nil, err
	}
	size := rdma.WholePages(n)
	if i := slices.IndexFunc(l.free, func(a *lot) bool { return len(a.r.B) == size }); i >= 0 {
		a := l.free[i]
		l.free = slices.Delete(l.free, i, i+1)
		clear(a.r.B)
		return a, nil
	}
	for {
		a, err := l.register(size)
		if err == nil || len(l.free) == 0 {
			return a, err
		}
		l.drop(l.free[0])
		l.free = slices.Delete(l.free, 0, 1)
	}
}

// register returns a new lot, which every device knows. giving is held.
func (l *Link) register(size int) (*lot, error) {
	a := &lot{regions: int((uintptr(size)-1)/l.span) + 1}
	if err := l.settings.Fits(l.row, l.regions+a.regions); err != nil {
		return nil, fmt.Errorf("%w; release some, or ask for fewer and larger ones", err)
	}
	var err error
	if a.r, err = rdma.NewRegion(size); err != nil {
		return nil, err
	}
	l.regions += a.regions
	if err := l.adapters.Know(a.r, l.span); err != nil {
		l.drop(a)
		return nil, err
	}
	return a, nil
}

// drop undoes register, also half of one. giving is held.
func (l *Link) drop(a *lot) {
	l.adapters.Forget(a.r)
	l.regions -= a.regions
	a.r.Close()
}

// release ends a lease.
func (l *Link) release(a *lot) {
	l.giving.Lock()
	defer l.giving.Unlock()
	if l.closed {
		a.r.Close()
		return
	}
	l.free = append(l.free, a)
	if len(l.free) > spareLots && l.broken.Load() == nil {
		l.drop(l.free[0])
		l.free = slices.Delete(l.free, 0, 1)
	}
}

// Staged returns how many bytes of data have been copied on their way, to peers and from
// them, since they did not lie in memory of Lease or Alloc. It waits for an exchange in
// progress. Heads do not count.
func (l *Link) Staged() (sent, received int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.eps {
		if e != nil {
			sent += e.StagedOut
			received += e.StagedIn
		}
	}
	return sent, received
}
