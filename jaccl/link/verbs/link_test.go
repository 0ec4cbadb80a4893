package verbs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/rdma"
	"github.com/gomoe/gomoe/jaccl/rdma/rdmatest"
)

// cut splits b into pieces at random, some of them empty.
func cut(b []byte, rng *rand.Rand) [][]byte {
	var out [][]byte
	for len(b) > 0 {
		n := min(rng.IntN(1+len(b)), 1+rng.IntN(20000))
		if rng.IntN(3) == 0 {
			n = len(b)
		}
		out, b = append(out, b[:n:n]), b[n:]
	}
	return append(out, nil)
}

// exchangeRound does one exchange of all ranks, with heads that say the lengths.
func exchangeRound(ctx context.Context, l link.Link, rank, n, round int, withHead bool) error {
	rng := rand.New(rand.NewPCG(uint64(rank), uint64(round)))
	x := &link.Exchange{}
	var recv [][]byte
	for p := range n {
		if p == rank {
			continue
		}
		x.Peers = append(x.Peers, p)
		x.Send = append(x.Send, cut(rdmatest.Pattern(rdmatest.Length(rank, p, round), rank, p, round), rng))
		recv = append(recv, make([]byte, rdmatest.Length(p, rank, round)))
	}
	set := func() {
		for _, b := range recv {
			x.Recv = append(x.Recv, cut(b, rng))
		}
	}
	headOf := func(r int) []byte {
		sizes := []int{0, 3, 4091, 4092, 4093, 9000, 12000, link.MaxHead}
		return rdmatest.Pattern(sizes[(r+round)%len(sizes)], r, 99, round)
	}
	calls := 0
	if withHead {
		x.Head = headOf(rank)
		x.Heads = func(heads [][]byte) error {
			calls++
			for i, p := range x.Peers {
				if !bytes.Equal(heads[i], headOf(p)) {
					return fmt.Errorf("head of rank %d has %d bytes, or other ones, want %d", p, len(heads[i]), len(headOf(p)))
				}
			}
			set()
			return nil
		}
	} else {
		set()
	}
	if err := l.Exchange(ctx, x); err != nil {
		return fmt.Errorf("round %d: %w", round, err)
	}
	if withHead && calls != 1 {
		return fmt.Errorf("round %d: Heads was called %d times", round, calls)
	}
	for i, p := range x.Peers {
		if !bytes.Equal(recv[i], rdmatest.Pattern(len(recv[i]), p, rank, round)) {
			return fmt.Errorf("round %d: the %d bytes of rank %d are not those that it sent", round, len(recv[i]), p)
		}
	}
	return nil
}

func TestExchange(t *testing.T) {
	for _, c := range []struct {
		n, wires int
		play     string
	}{{2, 1, ""}, {3, 1, ""}, {4, 1, "gid=3"}, {8, 1, ""}, {3, 1, "nic=1"}, {2, 1, "nic=1,gid=5"}, {2, 2, ""}, {3, 3, ""}, {2, 4, "nic=1"}} {
		t.Run(fmt.Sprint(c.n, c.wires, c.play), func(t *testing.T) {
			links := linkedOver(t, c.n, c.wires, c.play)
			ctx, cancel := context.WithCancel(rdmatest.Within(t, 3*time.Minute))
			defer cancel()
			rounds := 16
			if c.n > 3 {
				rounds = 5
			}
			for i, err := range together(links, func(rank int, l link.Link) error {
				if l.Rank() != rank || l.Size() != c.n || l.Transport() != "verbs" {
					return fmt.Errorf("it is rank %d of %d of %s", l.Rank(), l.Size(), l.Transport())
				}
				for round := range rounds {
					if err := exchangeRound(ctx, l, rank, c.n, round, round%3 > 0); err != nil {
						cancel()
						return err
					}
				}
				return nil
			}) {
				if err != nil {
					t.Errorf("rank %d: %v", i, err)
				}
			}
			want := rdma.UC
			if c.play != "" && c.play[:3] == "nic" {
				want = rdma.RC
			}
			l := links[0].(*Link)
			if got := l.Service(); got != want {
				t.Errorf("queue pairs are %v, want %v", got, want)
			}
			if len(l.eps) != c.n*c.wires {
				t.Errorf("%d endpoints, want %d ranks on %d wires", len(l.eps), c.n, c.wires)
			}
			for i, e := range l.eps {
				if e != nil && e.Sending.Turn == 0 {
					t.Errorf("nothing was sent to rank %d on wire %d", e.Peer, i/c.n)
				}
			}
		})
	}
}

// Pairs of ranks exchange while others do not, and one rank is late.
func TestExchangeOfSome(t *testing.T) {
	links := linked(t, 3, "")
	ctx := rdmatest.Within(t, 3*time.Minute)
	swap := func(l link.Link, peer int, mine, want string) error {
		got := make([]byte, len(want))
		x := &link.Exchange{Peers: []int{peer}, Send: [][][]byte{{[]byte(mine)}}, Recv: [][][]byte{{got}}}
		if err := l.Exchange(ctx, x); err != nil {
			return err
		}
		if string(got) != want {
			return fmt.Errorf("rank %d sent %q, want %q", peer, got, want)
		}
		return nil
	}
	errs := together(links, func(rank int, l link.Link) error {
		switch rank {
		case 0:
			return errors.Join(swap(l, 1, "ab", "c"), swap(l, 2, "d", "efg"), l.Exchange(ctx, &link.Exchange{}))
		case 1:
			return errors.Join(swap(l, 0, "c", "ab"), swap(l, 2, "h", "i"))
		}
		time.Sleep(20 * time.Millisecond)
		return errors.Join(swap(l, 0, "efg", "d"), swap(l, 1, "i", "h"))
	})
	require.NoError(t, errors.Join(errs...))
}

// The end of a context ends an exchange, and the link.
func TestContextEnds(t *testing.T) {
	links := linked(t, 2, "")
	ctx, cancel := context.WithCancelCause(rdmatest.Within(t, 3*time.Minute))
	why := errors.New("enough")
	x := &link.Exchange{Peers: []int{1}, Head: []byte("h"), Heads: func([][]byte) error { return nil }, Send: [][][]byte{{make([]byte, 10)}}}
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	if err := links[0].Exchange(ctx, x); !errors.Is(err, why) {
		t.Errorf("%v, want the context's cause", err)
	}
	if err := links[0].Exchange(context.Background(), x); !errors.Is(err, why) {
		t.Errorf("the next exchange: %v, want the first one's error", err)
	}
}

func TestHeadsError(t *testing.T) {
	links := linked(t, 2, "")
	bad := errors.New("they disagree")
	recv := bytes.Repeat([]byte{1}, 100)
	errs := together(links, func(rank int, l link.Link) error {
		return l.Exchange(rdmatest.Within(t, 3*time.Minute), &link.Exchange{
			Peers: []int{1 - rank}, Head: []byte{1}, Heads: func([][]byte) error { return bad },
			Send: [][][]byte{{make([]byte, 100)}}, Recv: [][][]byte{{recv}},
		})
	})
	for i, err := range errs {
		if err != bad {
			t.Errorf("rank %d: %v, want the error of Heads", i, err)
		}
	}
	if bytes.Count(recv, []byte{1}) != 100 {
		t.Error("data was written although Heads failed")
	}
}

func TestBadExchanges(t *testing.T) {
	for _, c := range []struct {
		x    *link.Exchange
		want string
	}{
		{&link.Exchange{Peers: []int{0}}, "peers [0] of rank 0 of 2"},
		{&link.Exchange{Peers: []int{2}}, "peers [2]"},
		{&link.Exchange{Peers: []int{1, 1}}, "peers [1 1]"},
		{&link.Exchange{Peers: []int{1}, Head: make([]byte, link.MaxHead+1)}, "head of 16385 bytes, want at most 16384"},
	} {
		links := linked(t, 2, "")
		rdmatest.Contains(t, links[0].Exchange(rdmatest.Within(t, 5*time.Second), c.x), c.want)
		for _, l := range links {
			l.Close()
		}
	}
}

// A peer that closes, in an exchange or before it.
func TestPeerCloses(t *testing.T) {
	links := linked(t, 3, "")
	var left atomic.Bool // as the engine's watch says
	time.AfterFunc(50*time.Millisecond, func() {
		links[2].Close()
		left.Store(true)
	})
	start := time.Now()
	errs := together(links[:2], func(rank int, l link.Link) error {
		x := &link.Exchange{Peers: []int{2}, Recv: [][][]byte{{make([]byte, 5)}}, Left: func(rank int) bool { return rank == 2 && left.Load() }}
		if rank == 1 {
			time.Sleep(100 * time.Millisecond)
		}
		return l.Exchange(rdmatest.Within(t, 3*time.Minute), x)
	})
	for i, err := range errs {
		var pe *link.PeerError
		if !errors.As(err, &pe) || pe.Peer != 2 {
			t.Errorf("rank %d: %v, want a PeerError of rank 2", i, err)
		}
		rdmatest.Contains(t, err, "rank 2 has closed its link")
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
}

// Close makes one's own exchange return.
func TestCloseInExchange(t *testing.T) {
	links := linked(t, 2, "")
	time.AfterFunc(50*time.Millisecond, func() { links[0].Close() })
	err := links[0].Exchange(rdmatest.Within(t, 3*time.Minute), &link.Exchange{Peers: []int{1}, Recv: [][][]byte{{make([]byte, 5)}}})
	rdmatest.Contains(t, err, "closed")
	rdmatest.Contains(t, links[0].Exchange(context.Background(), &link.Exchange{}), "closed")
	require.NoError(t, links[0].Close())
	_, err = links[0].(*Link).Alloc(1)
	rdmatest.Contains(t, err, "closed")
}

// What a rank has sent before it closes arrives.
func TestCloseAfterSending(t *testing.T) {
	for range 20 {
		links := linked(t, 2, "")
		got := make([]byte, 100000)
		errs := together(links, func(rank int, l link.Link) error {
			defer l.Close()
			x := &link.Exchange{Peers: []int{1 - rank}}
			if rank == 0 {
				x.Send = [][][]byte{{rdmatest.Pattern(len(got), 0, 1, 0)}}
			} else {
				x.Recv = [][][]byte{{got}}
			}
			return l.Exchange(rdmatest.Within(t, 3*time.Minute), x)
		})
		require.NoError(t, errors.Join(errs...))
		require.True(t, bytes.Equal(got, rdmatest.Pattern(len(got), 0, 1, 0)))
	}
}

func TestCompletionErrors(t *testing.T) {
	for _, c := range []struct {
		play, want string
	}{
		{"fail=1", "status 12, retries exceeded"},
		{"fail=3,status=1", "status 1, local length error"},
		{"fail=9,status=13", "status 13, receiver not ready"},
		{"fail=5,status=77", "status 77"},
	} {
		t.Run(c.play, func(t *testing.T) {
			links := linked(t, 2, c.play)
			ctx, cancel := context.WithCancel(rdmatest.Within(t, 3*time.Minute))
			errs := together(links, func(rank int, l link.Link) error {
				defer cancel() // as an engine does for the others
				for round := range 10 {
					if err := exchangeRound(ctx, l, rank, 2, round, true); err != nil {
						return err
					}
				}
				return nil
			})
			found := 0
			for _, err := range errs {
				var pe *link.PeerError
				if errors.As(err, &pe) {
					rdmatest.Contains(t, err, c.want, "device rdma_en", fmt.Sprintf("rank %d", pe.Peer))
					found++
				}
			}
			if found != 1 {
				t.Errorf("%v, want one failure with %q", errs, c.want)
			}
		})
	}
}

// No completions come any more: the context ends the wait.
func TestStuck(t *testing.T) {
	links := linked(t, 2, "stuck=7")
	errs := together(links, func(rank int, l link.Link) error {
		for round := range 10 {
			if err := exchangeRound(rdmatest.Within(t, 300*time.Millisecond), l, rank, 2, round, true); err != nil {
				return err
			}
		}
		return nil
	})
	for i, err := range errs {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("rank %d: %v, want the end of its context", i, err)
		}
	}
}

// A head's length is not believed.
func TestForgedHead(t *testing.T) {
	links := linked(t, 2, "")
	errs := together(links, func(rank int, l link.Link) error {
		x := &link.Exchange{Peers: []int{1 - rank}}
		if rank == 0 {
			x.Send = [][][]byte{{[]byte{1, 64, 0, 0, 9}, make([]byte, rdma.Frame-5)}} // 16385 bytes
			return l.Exchange(rdmatest.Within(t, 3*time.Minute), x)
		}
		x.Head, x.Heads = []byte{}, func([][]byte) error { return nil }
		return l.Exchange(rdmatest.Within(t, 3*time.Minute), x)
	})
	require.NoError(t, errs[0])
	rdmatest.Contains(t, errs[1], "rank 0 announces a head of 16385 bytes, want at most 16384")
}

// A rank that sends data where others want a head is found out by the length.
func TestNoHead(t *testing.T) {
	links := linked(t, 2, "nic=1")
	errs := together(links, func(rank int, l link.Link) error {
		x := &link.Exchange{Peers: []int{1 - rank}}
		if rank == 0 {
			x.Send = [][][]byte{{make([]byte, 500)}}
		} else {
			x.Head, x.Heads = []byte{}, func([][]byte) error { return nil }
		}
		return l.Exchange(rdmatest.Within(t, 3*time.Minute), x)
	})
	require.NoError(t, errs[0])
	rdmatest.Contains(t, errs[1], "rank 0 has sent a message of 500 bytes where 4096 are due")
}

// With whole buffers, as JACCL sends them, the device is given only lengths of classes, at
// pages of the endpoints; ranks that do not agree about it do not connect.
func TestWhole(t *testing.T) {
	lib := rdmatest.Standin(t, "")
	const n = 3
	links, errs := connectAll(t, n, rdmatest.Wires(n, 2), rdma.Settings{Library: lib, Whole: true})
	require.NoError(t, errors.Join(errs...))
	ctx := rdmatest.Within(t, 3*time.Minute)
	require.NoError(t, errors.Join(together(links, func(rank int, l link.Link) error {
		for round := range 16 {
			if err := exchangeRound(ctx, l, rank, n, round, round%3 > 0); err != nil {
				return err
			}
		}
		lot, _, err := l.(*Link).Lease(1 << 20)
		if err != nil {
			return err
		}
		before, _ := l.(*Link).Staged()
		x := &link.Exchange{Peers: []int{(rank + 1) % n, (rank + 2) % n}, Alike: true}
		slices.Sort(x.Peers)
		for range x.Peers {
			x.Send, x.Recv = append(x.Send, [][]byte{lot[1:5001]}), append(x.Recv, [][]byte{make([]byte, 5000)})
		}
		if err := l.Exchange(ctx, x); err != nil {
			return err
		}
		if after, _ := l.(*Link).Staged(); after-before != 10000 {
			t.Errorf("rank %d: %d bytes of a lease were copied, want all 10000", rank, after-before)
		}
		return nil
	})...))

	two, failed := make([]link.Link, 2), make([]error, 2)
	sites := jaccltest.Sites(2)
	for i := range two {
		defer func() {
			if two[i] != nil {
				two[i].Close()
			}
		}()
	}
	var wg sync.WaitGroup
	for i := range two {
		wg.Go(func() {
			two[i], failed[i] = Connect(ctx, sites[i], rdmatest.Mesh(2), rdma.Settings{Library: lib, Whole: i == 0})
		})
	}
	wg.Wait()
	for _, err := range failed {
		rdmatest.Contains(t, err, "sends whole buffers and the other does not, want one setting on all ranks")
	}
}
