package jaccltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/link"
)

// within runs f and fails the test if it takes longer than patience.
func within(t *testing.T, what string, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatalf("%s: no return within %v", what, patience)
		return nil
	}
}

// context: an exchange without any peer returns the cause of its context when the context
// ends: while waiting for heads, while sending data, and with an ended context.
func (s linkSuite) context(t *testing.T) {
	t.Run("waiting", func(t *testing.T) {
		links := s.start(t, 2)
		ctx, cancel := context.WithCancelCause(background())
		time.AfterFunc(20*time.Millisecond, func() { cancel(errSeeded) })
		err := within(t, "exchange", func() error {
			return links[0].Exchange(ctx, &link.Exchange{Peers: []int{1}, Head: []byte("x"), Heads: func([][]byte) error { return nil }})
		})
		if !errors.Is(err, errSeeded) {
			t.Errorf("%v, want the cause of the context", err)
		}
	})
	t.Run("sending", func(t *testing.T) {
		links := s.start(t, 2)
		ctx, cancel := context.WithCancelCause(background())
		time.AfterFunc(20*time.Millisecond, func() { cancel(errSeeded) })
		err := within(t, "exchange", func() error {
			return links[0].Exchange(ctx, &link.Exchange{Peers: []int{1}, Send: [][][]byte{{make([]byte, 32<<20)}}})
		})
		if !errors.Is(err, errSeeded) {
			t.Errorf("%v, want the cause of the context", err)
		}
	})
	t.Run("before", func(t *testing.T) {
		links := s.start(t, 2)
		ctx, cancel := context.WithCancelCause(background())
		cancel(errSeeded)
		err := within(t, "exchange", func() error { return links[0].Exchange(ctx, &link.Exchange{Peers: []int{1}}) })
		if !errors.Is(err, errSeeded) {
			t.Errorf("%v, want the cause of the context", err)
		}
	})
}

// peerCloses: ranks waiting for a peer closing its link, and ranks arriving later, get a
// *PeerError naming the peer, at the latest when the exchange reports that the peer is
// gone.
func (s linkSuite) peerCloses(t *testing.T) {
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("before=%v", before), func(t *testing.T) {
			links := s.start(t, 3)
			var closed atomic.Bool
			closes := func() {
				if err := links[1].Close(); err != nil {
					t.Error(err)
				}
				closed.Store(true)
			}
			if before {
				closes()
			} else {
				time.AfterFunc(20*time.Millisecond, closes)
			}
			left := func(rank int) bool { return rank == 1 && closed.Load() }
			for _, rank := range []int{0, 2} {
				err := within(t, "exchange", func() error {
					return links[rank].Exchange(background(), &link.Exchange{Peers: []int{1}, Head: []byte("x"), Heads: func([][]byte) error { return nil }, Left: left})
				})
				var peer *link.PeerError
				if !errors.As(err, &peer) || peer.Peer != 1 {
					t.Errorf("rank %d: %v, want a *link.PeerError of rank 1", rank, err)
				}
			}
		})
	}
}

// lastWords: data sent in an exchange that has succeeded arrives, even if the rank closes
// its link at once.
func (s linkSuite) lastWords(t *testing.T) {
	for round := range 10 {
		links := s.start(t, 3)
		const n = 300000
		for rank, err := range Each(links, func(l link.Link) error {
			x := link.Exchange{Peers: others(l), Head: []byte("last"), Heads: func([][]byte) error { return nil }}
			for range x.Peers {
				x.Send = append(x.Send, [][]byte{pattern(l.Rank(), n*(round%2))})
				x.Recv = append(x.Recv, [][]byte{make([]byte, n*(round%2))})
			}
			if err := l.Exchange(background(), &x); err != nil {
				return err
			}
			for i, peer := range x.Peers {
				if !bytes.Equal(x.Recv[i][0], pattern(peer, n*(round%2))) {
					return fmt.Errorf("other bytes have come from rank %d", peer)
				}
			}
			return l.Close()
		}) {
			if err != nil {
				t.Fatalf("round %d: rank %d: %v", round, rank, err)
			}
		}
	}
}

// ownClose: an exchange in progress returns when its link is closed.
func (s linkSuite) ownClose(t *testing.T) {
	links := s.start(t, 2)
	time.AfterFunc(20*time.Millisecond, func() { links[0].Close() })
	if err := within(t, "exchange", func() error { return links[0].Exchange(background(), &link.Exchange{Peers: []int{1}}) }); err == nil {
		// An exchange without heads and data does not wait: try one that has to wait.
		err = within(t, "exchange", func() error {
			time.Sleep(40 * time.Millisecond)
			return links[0].Exchange(background(), &link.Exchange{Peers: []int{1}, Recv: [][][]byte{{make([]byte, 1)}}})
		})
		if err == nil {
			t.Error("an exchange of a closed link succeeded")
		}
	}
}

// leaks: no goroutine outlives the links.
func (s linkSuite) leaks(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("job", func(t *testing.T) { // a subtest, because its clean-up closes the links
		ss := steps(4, 8, 1000)
		s.all(t, 4, func(ctx context.Context, l link.Link) error {
			var x link.Exchange
			for _, st := range ss {
				if slices.Contains(st.members, l.Rank()) {
					if err := st.run(ctx, l, &x); err != nil {
						return err
					}
				}
			}
			return nil
		})
	})
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		n := runtime.NumGoroutine()
		if n <= before {
			return
		}
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before the links and %d after:\n%s", before, n, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// lease checks the memory that links lend. Some links of a job may lend memory while others do
// not.
func (s linkSuite) lease(t *testing.T) {
	links := s.start(t, 3)
	leases, releases := make([][]byte, len(links)), make([]func() error, len(links))
	ctx, cancel := context.WithTimeout(background(), patience)
	defer cancel()
	for rank, err := range Each(links, func(l link.Link) (err error) {
		leases[l.Rank()], releases[l.Rank()], err = borrow(ctx, l)
		return err
	}) {
		require.NoError(t, err, "rank %d", rank)
	}
	for _, l := range links {
		require.NoError(t, l.Close())
	}
	for rank, b := range leases {
		if releases[rank] == nil {
			continue
		}
		for i := range b { // the memory outlives the link
			b[i] = byte(rank)
		}
		if b[0] != byte(rank) || b[len(b)-1] != byte(rank) {
			t.Errorf("rank %d: leased memory of a closed link does not keep what is written", rank)
		}
		require.NoError(t, releases[rank]())
		require.NoError(t, releases[rank]())
		if _, _, err := links[rank].(link.Lender).Lease(1); err == nil {
			t.Errorf("rank %d: a closed link lends memory", rank)
		}
	}
}

// borrow runs exchanges with buffers in leases, at odd offsets, returning the last lease.
// release is nil if the link lends no memory.
func borrow(ctx context.Context, l link.Link) ([]byte, func() error, error) {
	const size, each = 1 << 20, 100_003
	var b []byte
	var release func() error
	for round := range 4 {
		var err error
		b, release, err = lent(l, size)
		if err != nil {
			return nil, nil, fmt.Errorf("round %d: %w", round, err)
		}
		if release != nil && (len(b) != size || bytes.Count(b, []byte{0}) != size || uintptr(unsafe.Pointer(&b[0]))%page != 0) {
			return nil, nil, fmt.Errorf("round %d: a lease of %d bytes is %d, want as many, zeroed, that begin at a page", round, size, len(b))
		}
		x := link.Exchange{Peers: others(l), Alike: round%2 == 0}
		rest := b[1+round:]
		for range x.Peers {
			copy(rest, pattern(l.Rank(), each))
			x.Send = append(x.Send, [][]byte{rest[:each]})
			x.Recv = append(x.Recv, [][]byte{rest[each : 2*each]})
			rest = rest[2*each+7:]
		}
		if err := l.Exchange(ctx, &x); err != nil {
			return nil, nil, fmt.Errorf("round %d: %w", round, err)
		}
		for i, peer := range x.Peers {
			if d := differ(x.Recv[i][0], pattern(peer, each)); d >= 0 {
				return nil, nil, fmt.Errorf("round %d: byte %d of what rank %d has sent is wrong", round, d, peer)
			}
		}
		if round < 3 && release != nil {
			if err := errors.Join(release(), release()); err != nil {
				return nil, nil, err
			}
		}
	}
	return b, release, nil
}

// lent returns a lease of the link, or the process's own memory and a nil release if the link
// lends none.
func lent(l link.Link, n int) ([]byte, func() error, error) {
	if lender, ok := l.(link.Lender); ok {
		if b, release, err := lender.Lease(n); !errors.Is(err, jaccl.ErrUnsupported) {
			return b, release, err
		}
	}
	return make([]byte, n), nil, nil
}

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
