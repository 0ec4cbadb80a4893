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
	regions int // number of memory regions of each device in use
}

const (
	// spareLots is the number of ended leases that stay registered. The system cannot use
	// registered memory for anything else.
	spareLots = 8
	// maxSpan is the distance, in bytes, between the beginnings of a lot's regions. Each
	// region is longer by one message, so that every message is within one region.
	// Regions above 4 GiB are said to be damaged on Thunderbolt.
	maxSpan uintptr = 3 << 30
)

// Lease implements link.Lender. The memory is aligned to a page and registered with every
// device: data in it, at any byte, is sent and received without a copy. A lease takes one
// memory region of every device for each 3 GiB or part of them; if a device has no more
// regions, the error has its number of regions. Ended leases are reused for leases of the
// same size.
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

// Alloc returns n bytes like Lease. They are released with the link.
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
	if err := l.usable(); err != nil { // after a failure a device may still receive into free lots
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

// register returns a new lot, registered with every device. The caller holds giving.
func (l *Link) register(size int) (*lot, error) {
	a := &lot{regions: int((uintptr(size)-1)/l.span) + 1}
	if err := l.limits.Fits(l.row, l.regions+a.regions); err != nil {
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

// drop undoes register, even if register failed halfway. The caller holds giving.
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

// Staged returns the number of bytes of data, sent and received, that were copied through
// the link's buffers because they were not in memory of Lease or Alloc. Heads do not
// count. It waits for an exchange in progress.
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
