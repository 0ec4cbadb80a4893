package jaccltest

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/jaccl/link"
)

// SharedLinks returns links like Links, between ranks that also share memory.
func SharedLinks(n int) []link.Shared {
	memories := make([]*region, n)
	links := make([]link.Shared, n)
	for i, l := range newLinks(n) {
		memories[i] = &region{}
		links[i] = &sharedLink{l, memories}
	}
	return links
}

// sharedLink is a link with the memory of all ranks.
type sharedLink struct {
	*wired
	memories []*region
}

// region is the shared memory of a rank: pieces at ascending offsets, with gaps between them.
type region struct {
	mu     sync.Mutex
	pieces []piece
	next   int64
}

type piece struct {
	at int64
	b  []byte
}

const page = 4096

func (l *sharedLink) Alloc(n int) ([]byte, error) {
	if n < 0 {
		return nil, fmt.Errorf("jaccltest: alloc: %d bytes, want 0 or more", n)
	}
	select {
	case <-l.closed:
		return nil, errors.New("jaccltest: alloc: the link is closed")
	default:
	}
	b := make([]byte, n+page)
	skip := (page - int(uintptr(unsafe.Pointer(&b[0]))%page)) % page
	b = b[skip:][:n:n]
	r := l.memories[l.rank]
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pieces = append(r.pieces, piece{r.next, b})
	r.next += int64(n+2*page-1) / page * page
	return b, nil
}

// Lease is Alloc. release does nothing: the garbage collector frees the memory.
func (l *sharedLink) Lease(n int) ([]byte, func() error, error) {
	b, err := l.Alloc(n)
	return b, func() error { return nil }, err
}

func (l *sharedLink) Locate(b []byte) (int64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	r := l.memories[l.rank]
	r.mu.Lock()
	defer r.mu.Unlock()
	at := uintptr(unsafe.Pointer(&b[0]))
	for _, p := range r.pieces {
		if len(p.b) == 0 {
			continue
		}
		start := uintptr(unsafe.Pointer(&p.b[0]))
		if at >= start && at+uintptr(len(b)) <= start+uintptr(len(p.b)) {
			return p.at + int64(at-start), true
		}
	}
	return 0, false
}

func (l *sharedLink) View(peer int, offset int64, n int) ([]byte, error) {
	if peer < 0 || peer >= len(l.memories) {
		return nil, fmt.Errorf("jaccltest: view: rank %d, want 0 to %d", peer, len(l.memories)-1)
	}
	r := l.memories[peer]
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pieces {
		if n >= 0 && offset >= p.at && offset-p.at <= int64(len(p.b)) && int64(n) <= int64(len(p.b))-(offset-p.at) {
			return p.b[offset-p.at:][:n:n], nil
		}
	}
	return nil, fmt.Errorf("jaccltest: view: %d bytes at %d of rank %d are not its shared memory", n, offset, peer)
}
