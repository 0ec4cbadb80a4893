//go:build linux || darwin

package shm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
)

// patience is how long something may take that does not hang.
const patience = time.Minute

func deadline(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	return ctx
}

// all runs f for all ranks at the same time and returns the errors.
func all(links []*transport, f func(l *transport) error) []error {
	errs := make([]error, len(links))
	var wg sync.WaitGroup
	for i, l := range links {
		wg.Go(func() { errs[i] = f(l) })
	}
	wg.Wait()
	return errs
}

func succeed(t *testing.T, errs []error) {
	t.Helper()
	for rank, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func others(rank, n int) []int {
	var out []int
	for r := range n {
		if r != rank {
			out = append(out, r)
		}
	}
	return out
}

// Every rank exchanges with all others, then pairs among themselves, for all kinds
// of lengths and cuts, from private memory and from the arena.
func TestExchange(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for _, ring := range []int{minRing, 0} {
			t.Run(fmt.Sprintf("ranks=%d ring=%d", n, ring), func(t *testing.T) {
				links := connectAll(t, jaccltest.Sites(n), Options{Ring: ring})
				ctx := deadline(t)
				succeed(t, all(links, func(l *transport) error {
					arena, err := l.Alloc(2 << 20)
					if err != nil {
						return err
					}
					for seed := range 10 {
						p := plan{n, seed}
						if err := p.play(ctx, l, others(l.rank, n), seed%3 > 0, arena); err != nil {
							return fmt.Errorf("exchange %d: %w", seed, err)
						}
						if mate := l.rank ^ 1; mate < n {
							if err := p.play(ctx, l, []int{mate}, seed%2 > 0, nil); err != nil {
								return fmt.Errorf("pair %d: %w", seed, err)
							}
						}
					}
					return nil
				}))
			})
		}
	}
}

// A rank may send several exchanges ahead of its peer, and close.
func TestExchangeMayRunAhead(t *testing.T) {
	links := connectAll(t, jaccltest.Sites(2), Options{})
	ctx := deadline(t)
	// Rank 0 sends and does not wait for rank 1 to come.
	for i := range 10 {
		require.NoError(t, links[0].Exchange(ctx, &link.Exchange{Peers: []int{1}, Send: [][][]byte{{{byte(i)}}}}))
	}
	require.NoError(t, links[0].Close())
	for i := range 10 { // what rank 0 has sent still arrives
		got := make([]byte, 1)
		require.NoError(t, links[1].Exchange(ctx, &link.Exchange{Peers: []int{0}, Recv: [][][]byte{{got}}}))
		require.Equal(t, byte(i), got[0])
	}
	err := links[1].Exchange(ctx, &link.Exchange{Peers: []int{0}, Recv: [][][]byte{{make([]byte, 1)}}})
	var lost *link.PeerError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, 0, lost.Peer)
	require.ErrorContains(t, err, "rank 0 on host0 has closed its link")
	require.ErrorContains(t, links[1].Exchange(ctx, &link.Exchange{}), "an earlier one has failed")
}

// Each side states the number of bytes: both have to agree.
func TestExchangeMismatch(t *testing.T) {
	for _, c := range []struct {
		name         string
		head         []byte
		send, expect int
		arena        bool
		want         string
	}{
		{"less", nil, 10, 11, false, "rank 0 on host0 sends 10 bytes in exchange 1, want 11"},
		{"more", nil, 12, 11, false, "rank 0 on host0 sends 12 bytes in exchange 1, want 11"},
		{"arena", nil, 8192, 8193, true, "rank 0 on host0 sends 8192 bytes in exchange 1, want 8193"},
		{"head for data", []byte("x"), 0, 11, false, "rank 0 on host0 sends a head of exchange 1, want data of exchange 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			links := connectAll(t, jaccltest.Sites(2), Options{})
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			errs := all(links, func(l *transport) error {
				x := &link.Exchange{}
				if l.rank == 0 {
					send, err := make([]byte, c.send), error(nil)
					if c.arena {
						if send, err = l.Alloc(c.send); err != nil {
							return err
						}
					}
					x = &link.Exchange{Peers: []int{1}, Head: c.head, Send: [][][]byte{{send}}}
				} else {
					x = &link.Exchange{Peers: []int{0}, Recv: [][][]byte{{make([]byte, c.expect)}}}
				}
				err := l.Exchange(ctx, x)
				if l.rank == 1 {
					l.Close() // ends the wait of rank 0
				}
				return err
			})
			require.ErrorContains(t, errs[1], c.want)
			var lost *link.PeerError
			require.ErrorAs(t, errs[1], &lost)
		})
	}
}

// The next exchange finds data that the last one did not expect.
func TestExchangeLeftOver(t *testing.T) {
	links := connectAll(t, jaccltest.Sites(2), Options{})
	ctx := deadline(t)
	require.NoError(t, links[0].Exchange(ctx, &link.Exchange{Peers: []int{1}, Send: [][][]byte{{{1}}}}))
	require.NoError(t, links[1].Exchange(ctx, &link.Exchange{Peers: []int{0}}))
	err := links[1].Exchange(ctx, &link.Exchange{Peers: []int{0}, Recv: [][][]byte{{make([]byte, 1)}}})
	require.ErrorContains(t, err, "rank 0 on host0 sends data of exchange 1, want data of exchange 2")
}

func TestBadArguments(t *testing.T) {
	links := connectAll(t, jaccltest.Sites(3), Options{})
	l := links[1]
	for _, c := range []struct {
		x    *link.Exchange
		want string
	}{
		{&link.Exchange{Peers: []int{1}}, "rank 1 of 3 with peers [1]"},
		{&link.Exchange{Peers: []int{2, 0}}, "ascending"},
		{&link.Exchange{Peers: []int{0, 0}}, "ascending"},
		{&link.Exchange{Peers: []int{3}}, "peers [3]"},
		{&link.Exchange{Peers: []int{-1}}, "peers [-1]"},
		{&link.Exchange{Peers: []int{0}, Head: make([]byte, link.MaxHead+1)}, "head of 16385 bytes, want at most 16384"},
	} {
		require.ErrorContains(t, l.Exchange(deadline(t), c.x), c.want)
	}
	ctx := deadline(t)
	succeed(t, all(links, func(l *transport) error { // none of it has cost anything
		return plan{3, 1}.play(ctx, l, others(l.rank, 3), true, nil)
	}))
}

var errSeeded = errors.New("seeded")

func TestHeadsError(t *testing.T) {
	links := connectAll(t, jaccltest.Sites(2), Options{})
	ctx := deadline(t)
	got := make([]byte, 100)
	errs := all(links, func(l *transport) error {
		x := &link.Exchange{Peers: others(l.rank, 2), Head: []byte("head"), Send: [][][]byte{{bytes.Repeat([]byte{1}, 100)}}, Recv: [][][]byte{{make([]byte, 100)}}}
		x.Heads = func([][]byte) error { return nil }
		if l.rank == 1 {
			x.Recv = [][][]byte{{got}}
			x.Heads = func([][]byte) error { return errSeeded }
		}
		return l.Exchange(ctx, x)
	})
	require.NoError(t, errs[0])
	require.Equal(t, errSeeded, errs[1])
	require.Equal(t, make([]byte, 100), got)
}

// The heads of an exchange come together or not at all.
func TestHeadsWaitForAll(t *testing.T) {
	links := connectAll(t, jaccltest.Sites(3), Options{})
	ctx, cancel := context.WithCancelCause(deadline(t))
	defer cancel(nil)
	came := make(chan struct{})
	errs := all(links, func(l *transport) error {
		if l.rank == 2 {
			<-came
			cancel(errSeeded)
			return nil
		}
		x := &link.Exchange{Peers: others(l.rank, 3), Head: []byte("head")}
		x.Heads = func([][]byte) error { return errors.New("shown before the head of rank 2 came") }
		if l.rank == 0 {
			go func() {
				defer close(came)
				for i := 0; i < 2000 && !l.sawHead(x); i++ {
					time.Sleep(time.Millisecond)
				}
			}()
		}
		return l.Exchange(ctx, x)
	})
	require.Equal(t, errSeeded, errs[0])
	require.Equal(t, errSeeded, errs[1])
}

// sawHead reports whether rank 1's ring has been read to the end of its head.
func (l *transport) sawHead(*link.Exchange) bool {
	return l.peers[1].in.ring.taken.Load() == recordBytes+4
}

// The end of its context ends an exchange, whatever the exchange waits for.
func TestContext(t *testing.T) {
	for name, x := range map[string]*link.Exchange{
		"head":  {Peers: []int{1}, Head: []byte("head")},
		"data":  {Peers: []int{1}, Recv: [][][]byte{{make([]byte, 1)}}},
		"room":  {Peers: []int{1}, Send: [][][]byte{{make([]byte, 1<<20)}}},
		"arena": {Peers: []int{1}},
	} {
		for _, after := range []time.Duration{0, time.Millisecond, 30 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s/%v", name, after), func(t *testing.T) {
				links := connectAll(t, jaccltest.Sites(2), Options{})
				if name == "arena" {
					send, err := links[0].Alloc(1 << 20)
					require.NoError(t, err)
					x.Send = [][][]byte{{send}}
				}
				ctx, cancel := context.WithCancelCause(context.Background())
				if after == 0 {
					cancel(errSeeded)
				} else {
					time.AfterFunc(after, func() { cancel(errSeeded) })
				}
				returns(t, func() { require.Equal(t, errSeeded, links[0].Exchange(ctx, x)) })
			})
		}
	}
}

// returns fails the test if f takes so long that it seems to hang.
func returns(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("it did not return")
	}
}

// Close makes this rank's exchange return, and those of its peers.
func TestClose(t *testing.T) {
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("before=%v", before), func(t *testing.T) {
			links := connectAll(t, jaccltest.Sites(3), Options{})
			ctx := deadline(t)
			if before {
				require.NoError(t, links[2].Close())
			} else {
				time.AfterFunc(20*time.Millisecond, func() { links[2].Close() })
			}
			errs := all(links, func(l *transport) error { // each waits for what never comes
				from := []int{2}
				if l.rank == 2 {
					from = []int{0}
				}
				return l.Exchange(ctx, &link.Exchange{Peers: from, Recv: [][][]byte{{make([]byte, 1)}}})
			})
			for _, err := range errs[:2] {
				var lost *link.PeerError
				require.ErrorAs(t, err, &lost)
				require.Equal(t, 2, lost.Peer)
				require.ErrorContains(t, err, "shm: rank 2 on host2 has closed its link")
			}
			require.ErrorIs(t, errs[2], jaccl.ErrClosed)
			require.NoError(t, links[2].Close())
			_, err := links[2].Alloc(1)
			require.ErrorIs(t, err, jaccl.ErrClosed)
			_, err = links[2].View(0, 0, 0)
			require.ErrorIs(t, err, jaccl.ErrClosed)
			_, ok := links[2].Locate([]byte{1})
			require.False(t, ok)
		})
	}
}

// A rank that sleeps is woken by its peer, not by the end of sleepFor: with so many turns
// the latter would take too long.
func TestWakeAtOnce(t *testing.T) {
	links := connectAll(t, jaccltest.Sites(2), Options{})
	ctx := deadline(t)
	succeed(t, all(links, func(l *transport) error {
		got := make([]byte, 1)
		for turn := range 2 * int(patience/sleepFor) {
			x := &link.Exchange{Peers: others(l.rank, 2), Recv: [][][]byte{{got}}}
			if turn%2 == l.rank {
				for l.peers[1-l.rank].segment.asleep().Load() == 0 && ctx.Err() == nil {
					time.Sleep(100 * time.Microsecond)
				}
				x.Send, x.Recv = [][][]byte{{got}}, nil
			}
			if err := l.Exchange(ctx, x); err != nil {
				return fmt.Errorf("turn %d: %w", turn, err)
			}
		}
		return nil
	}))
}

// Ranks that sleep are woken: by data, by room, by a head.
func TestWake(t *testing.T) {
	links := connectAll(t, jaccltest.Sites(2), Options{Ring: minRing})
	ctx := deadline(t)
	succeed(t, all(links, func(l *transport) error {
		for seed := range 6 {
			if seed%2 == l.rank {
				time.Sleep(5 * time.Millisecond)
			}
			if err := (plan{2, seed}).play(ctx, l, others(l.rank, 2), true, nil); err != nil {
				return err
			}
		}
		return nil
	}))
}

// An exchange allocates nothing.
func TestAllocations(t *testing.T) {
	links := connectAll(t, jaccltest.Sites(2), Options{})
	ctx := deadline(t)
	data := make([]byte, 1000)
	out := &link.Exchange{Peers: []int{1}, Send: [][][]byte{{data[:500], data}}}
	in := &link.Exchange{Peers: []int{0}, Recv: [][][]byte{{data, data[:500]}}}
	back := &link.Exchange{Peers: []int{1}, Recv: [][][]byte{{data[:1]}}}
	forth := &link.Exchange{Peers: []int{0}, Send: [][][]byte{{data[:1]}}}
	// Without heads, so that one goroutine can be both ranks.
	n := testing.AllocsPerRun(100, func() {
		for _, s := range []struct {
			rank int
			x    *link.Exchange
		}{{0, out}, {1, in}, {1, forth}, {0, back}} {
			if err := links[s.rank].Exchange(ctx, s.x); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations in 4 exchanges, want none", n)
	}
}
