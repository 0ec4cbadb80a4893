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
