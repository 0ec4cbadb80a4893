package jaccltest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gomoe/gomoe/jaccl/link"
)

// shared checks Alloc, Locate and View of links with shared memory.
func (s linkSuite) shared(t *testing.T) {
	const n = 3
	links := s.start(t, n)
	if _, ok := links[0].(link.Shared); !ok {
		return
	}
	for rank, err := range Each(links, func(l link.Link) error { return sharedMemory(l.(link.Shared)) }) {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func sharedMemory(l link.Shared) error {
	var mine [][]byte
	var at []int64
	for _, n := range []int{1, 4096, 100001} {
		b, err := l.Alloc(n)
		if err != nil {
			return err
		}
		if len(b) != n || bytes.Count(b, []byte{0}) != n {
			return fmt.Errorf("alloc of %d bytes: %d bytes, or not zeroed", n, len(b))
		}
		offset, ok := l.Locate(b)
		if !ok || offset%4096 != 0 {
			return fmt.Errorf("alloc of %d bytes: at %d, located %v; want the start of a page", n, offset, ok)
		}
		if n > 5 {
			if inner, ok := l.Locate(b[5:n]); !ok || inner != offset+5 {
				return fmt.Errorf("5 bytes into %d: at %d, located %v, want %d", n, inner, ok, offset+5)
			}
		}
		copy(b, pattern(l.Rank()*1000+n, n))
		mine, at = append(mine, b), append(at, offset)
	}
	if offset, ok := l.Locate(make([]byte, 8)); ok {
		return fmt.Errorf("other memory is at %d, want nowhere", offset)
	}
	for _, peer := range others(l) {
		for _, bad := range [][2]int64{{-1, 8}, {0, 1 << 40}, {1 << 50, 1}, {0, -1}, {1<<63 - 1, 8}, {-1 << 63, 1}} {
			if b, err := l.View(peer, bad[0], int(bad[1])); err == nil {
				return fmt.Errorf("a view of %d bytes at %d of rank %d is %d bytes, want an error", bad[1], bad[0], peer, len(b))
			}
		}
	}
	for _, peer := range []int{-1, l.Size()} {
		if _, err := l.View(peer, 0, 1); err == nil {
			return fmt.Errorf("a view of rank %d, want an error", peer)
		}
	}
	for round := range 3 { // after an exchange a rank sees the writes of its peers
		head := make([]byte, 0, 24)
		for _, offset := range at {
			for shift := 0; shift < 64; shift += 8 {
				head = append(head, byte(offset>>shift))
			}
		}
		x := link.Exchange{Peers: others(l), Head: head}
		x.Heads = func(heads [][]byte) error {
			for i, peer := range x.Peers {
				for k, n := range []int{1, 4096, 100001} {
					var offset int64
					for j := range 8 {
						offset |= int64(heads[i][8*k+j]) << (8 * j)
					}
					b, err := l.View(peer, offset, n)
					if err != nil {
						return err
					}
					want := pattern(peer*1000+n, n)
					want[0] = byte(int(want[0]) + round)
					if d := differ(b, want); d >= 0 {
						return fmt.Errorf("round %d: byte %d of %d of rank %d is %#x, want %#x", round, d, n, peer, b[d], want[d])
					}
				}
			}
			return nil
		}
		if err := l.Exchange(background(), &x); err != nil {
			return err
		}
		if err := barrierOf(l); err != nil {
			return err
		}
		for _, b := range mine {
			b[0]++
		}
	}
	return nil
}

// barrierOf returns when all ranks have called it.
func barrierOf(l link.Link) error {
	return l.Exchange(background(), &link.Exchange{Peers: others(l), Head: []byte{0}, Heads: func([][]byte) error { return nil }})
}
