//go:build linux || darwin

package shm

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lease is a lent part of the arena. It is mapped a second time, separately, so that the
// lease outlives the link's mapping of the whole segment.
type lease struct {
	at  int64 // offset in the arena
	mem []byte
}

// region is a part of the arena that was lent and is free again.
type region struct{ at, size int64 }

// Lease implements link.Shared.
func (l *transport) Lease(n int) ([]byte, func() error, error) {
	if n < 0 {
		return nil, nil, fmt.Errorf("shm: lease: %d bytes, want none or more", n)
	}
	size := max(up(int64(n), int64(os.Getpagesize())), int64(os.Getpagesize()))
	at, used, err := l.freed(size)
	if err != nil {
		return nil, nil, err
	}
	if !used {
		b, err := l.Alloc(int(size))
		if err != nil {
			return nil, nil, err
		}
		at, _ = l.Locate(b)
	}
	mem, err := l.again(at, size)
	if err != nil {
		return nil, nil, err
	}
	if used {
		clear(mem)
	}
	var once sync.Once
	release := func() (err error) {
		once.Do(func() { err = l.release(lease{at, mem}) })
		return err
	}
	return mem[:n:n], release, nil
}

// freed removes a free region of exactly that size from the list, returning its offset in
// the arena; false if there is none. An exact match suffices, because a program opening
// one session after another asks for the same sizes.
func (l *transport) freed(size int64) (at int64, ok bool, err error) {
	l.giving.Lock()
	defer l.giving.Unlock()
	if l.closing.Load() {
		return 0, false, errClosed
	}
	i := slices.IndexFunc(l.free, func(r region) bool { return r.size == size })
	if i < 0 {
		return 0, false, nil
	}
	at = l.free[i].at
	l.free = slices.Delete(l.free, i, i+1)
	return at, true, nil
}

// again maps a part of the arena a second time, noting the lease.
func (l *transport) again(at, size int64) ([]byte, error) {
	l.giving.Lock()
	defer l.giving.Unlock()
	l.mapped.RLock()
	defer l.mapped.RUnlock()
	if l.own.mem == nil {
		return nil, errClosed
	}
	mem, err := unix.Mmap(l.fd, l.own.arena+at, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("shm: lease: map %d bytes: %w", size, err)
	}
	leases := append(slices.Clone(*l.leases.Load()), lease{at, mem})
	l.leases.Store(&leases)
	return mem, nil
}

// release ends a lease.
func (l *transport) release(r lease) error {
	l.giving.Lock()
	defer l.giving.Unlock()
	leases := slices.DeleteFunc(slices.Clone(*l.leases.Load()), func(o lease) bool { return o.at == r.at })
	l.leases.Store(&leases)
	l.free = append(l.free, region{r.at, int64(len(r.mem))})
	if err := unix.Munmap(r.mem); err != nil {
		return errors.Join(errors.New("shm: lease: unmap"), err)
	}
	return nil
}

// leased returns the offset of b in the arena if b is in a lease; otherwise false.
func (l *transport) leased(b []byte) (int64, bool) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for _, r := range *l.leases.Load() {
		first := uintptr(unsafe.Pointer(unsafe.SliceData(r.mem)))
		if at >= first && at-first <= uintptr(len(r.mem)) && uintptr(len(b)) <= uintptr(len(r.mem))-(at-first) {
			return r.at + int64(at-first), true
		}
	}
	return 0, false
}
