//go:build linux || darwin

package shm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Alloc implements link.Shared. It takes the memory from the system at once: the error
// has the amount available, and later writes to the bytes never fail. The memory is not
// released before Close.
func (l *transport) Alloc(n int) ([]byte, error) {
	l.giving.Lock()
	defer l.giving.Unlock()
	l.mapped.RLock()
	defer l.mapped.RUnlock()
	if l.own.mem == nil {
		return nil, errClosed
	}
	if n < 0 {
		return nil, fmt.Errorf("shm: alloc: %d bytes, want none or more", n)
	}
	used := l.used // not the copy in the segment, which peers could overwrite
	all := l.own.size - l.own.arena
	if int64(n) > all-used {
		return nil, fmt.Errorf("shm: alloc: %d bytes where %d of %d are used, the machine's memory or Options.Reserve", n, used, all)
	}
	size := up(int64(n), int64(os.Getpagesize()))
	if err := l.take(l.own.arena+used, size); err != nil {
		return nil, fmt.Errorf("shm: alloc: %d bytes after %d: %w", n, used, err)
	}
	l.used += size
	l.own.given().Store(uint64(l.used))
	at := l.own.arena + used
	return l.own.mem[at : at+int64(n) : at+int64(n)], nil
}

// take commits n bytes of this rank's segment at offset at. If the system has less than
// that, the error gives the amount available.
func (l *transport) take(at, n int64) error {
	if n == 0 {
		return nil
	}
	if l.path == "" {
		if err := excess(n); err != nil {
			return err
		}
		return commit(l.fd, at, n)
	}
	left, size, err := room(l.fd)
	if err != nil {
		return err
	}
	err = unix.ENOSPC
	if n <= left {
		err = commit(l.fd, at, n)
	}
	if err != nil {
		return fmt.Errorf("the file system of %s has %d bytes left of %d: %w", filepath.Dir(l.path), left, size, err)
	}
	return nil
}

// Locate implements link.Shared.
func (l *transport) Locate(b []byte) (int64, bool) {
	l.mapped.RLock()
	defer l.mapped.RUnlock()
	if l.own.mem == nil || unsafe.SliceData(b) == nil {
		return 0, false
	}
	if at, ok := l.leased(b); ok {
		return at, true
	}
	first := uintptr(unsafe.Pointer(unsafe.SliceData(l.own.mem))) + uintptr(l.own.arena)
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	used := uintptr(min(l.own.given().Load(), uint64(l.own.size-l.own.arena)))
	if at < first || at-first > used || uintptr(len(b)) > used-(at-first) {
		return 0, false
	}
	return int64(at - first), true
}

// View implements link.Shared.
func (l *transport) View(peer int, offset int64, n int) ([]byte, error) {
	l.mapped.RLock()
	defer l.mapped.RUnlock()
	switch {
	case l.own.mem == nil:
		return nil, errClosed
	case peer < 0 || peer >= len(l.peers):
		return nil, fmt.Errorf("shm: view: rank %d of %d", peer, len(l.peers))
	}
	s := l.own
	if peer != l.rank {
		s = l.peers[peer].segment
	}
	b, err := s.view(offset, n)
	if err != nil {
		return nil, fmt.Errorf("shm: view: rank %d on %s: %w", peer, l.peers[peer].host, err)
	}
	return b, nil
}

// view returns n bytes of a segment's arena at offset. It checks the owner's statements
// about the arena against the memory mapped here.
func (s *segment) view(offset int64, n int) ([]byte, error) {
	all := uint64(s.size - s.arena)
	given := s.given().Load()
	if given > all {
		return nil, fmt.Errorf("has given out %d bytes of shared memory, want at most %d", given, all)
	}
	if offset < 0 || n < 0 || uint64(offset) > given || uint64(n) > given-uint64(offset) {
		return nil, fmt.Errorf("has %d bytes of shared memory, want %d from %d on", given, n, offset)
	}
	at := s.arena + offset
	return s.mem[at : at+int64(n) : at+int64(n)], nil
}

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
