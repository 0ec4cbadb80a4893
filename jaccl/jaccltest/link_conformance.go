package jaccltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomoe/gomoe/jaccl/link"
)

// LinkConformance runs the suite for links. open returns the links of a new job of n
// ranks, by rank; the suite closes them. Jobs have at most 8 ranks, and one exchange moves
// at most 64 MiB from one rank to another.
func LinkConformance(t *testing.T, open func(t *testing.T, n int) []link.Link) {
	s := linkSuite{open}
	t.Run("Ranks", s.ranks)
	t.Run("Orders", s.orders)
	t.Run("Heads", s.heads)
	t.Run("HeadsRefuse", s.refuse)
	t.Run("Nothing", s.nothing)
	t.Run("Big", s.big)
	t.Run("Account", s.account)
	t.Run("Context", s.context)
	t.Run("PeerCloses", s.peerCloses)
	t.Run("LastWords", s.lastWords)
	t.Run("OwnClose", s.ownClose)
	t.Run("Leaks", s.leaks)
	t.Run("Lease", s.lease)
	t.Run("Shared", s.shared)
}

type linkSuite struct {
	open func(t *testing.T, n int) []link.Link
}

// patience is the time limit for a step moving little data.
const patience = 20 * time.Second

func (s linkSuite) start(t *testing.T, n int) []link.Link {
	t.Helper()
	return closedTwice(t, s.open(t, n), n)
}

func (s linkSuite) all(t *testing.T, n int, f func(ctx context.Context, l link.Link) error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(background())
	defer cancel(nil)
	for rank, err := range Each(s.start(t, n), func(l link.Link) error {
		err := f(ctx, l)
		if err != nil {
			cancel(err)
		}
		return err
	}) {
		if err != nil {
			t.Errorf("rank %d of %d: %v", rank, n, err)
		}
	}
}

func (s linkSuite) ranks(t *testing.T) {
	for i, l := range s.start(t, 3) {
		if l.Rank() != i || l.Size() != 3 || l.Transport() == "" {
			t.Errorf("link %d is rank %d of %d on %q, want %d of 3 on something", i, l.Rank(), l.Size(), l.Transport(), i)
		}
	}
}

// orders has ranks at different exchanges at the same time: data arrives in the order of
// sending.
func (s linkSuite) orders(t *testing.T) {
	for _, n := range sizes() {
		ss := steps(n, 60, 30000)
		s.all(t, n, func(ctx context.Context, l link.Link) error {
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
	}
}

// heads exchanges heads of every length that matters, without data.
func (s linkSuite) heads(t *testing.T) {
	lengths := []int{0, 1, 2, 63, 64, 65, 1000, link.MaxHead - 1, link.MaxHead}
	s.all(t, 3, func(ctx context.Context, l link.Link) error {
		for k := range lengths {
			head := func(rank int) []byte { return pattern(rank, lengths[(k+rank)%len(lengths)]) }
			x := link.Exchange{Peers: others(l), Head: head(l.Rank())}
			x.Heads = func(heads [][]byte) error {
				for i, peer := range x.Peers {
					if !bytes.Equal(heads[i], head(peer)) {
						return fmt.Errorf("rank %d: a head of %d bytes, want %d", peer, len(heads[i]), len(head(peer)))
					}
				}
				return nil
			}
			if err := l.Exchange(ctx, &x); err != nil {
				return err
			}
		}
		return nil
	})
}

func others(l link.Link) []int {
	return slices.DeleteFunc(world(l.Size()), func(r int) bool { return r == l.Rank() })
}

// refuse: Exchange returns the error of Heads unchanged, and writes nothing. A rank that
// refuses may leave another rank without its head; that rank waits until its context
// ends.
func (s linkSuite) refuse(t *testing.T) {
	refusal := errors.New("no, thank you")
	ctx, cancel := context.WithTimeout(background(), patience)
	defer cancel()
	var late sync.Once
	errs := Each(s.start(t, 3), func(l link.Link) error {
		x := link.Exchange{Peers: others(l), Head: []byte("head"), Heads: func([][]byte) error { return refusal }}
		var got [][]byte
		for range x.Peers {
			b := bytes.Repeat([]byte{canary}, 1000)
			got = append(got, b)
			x.Send = append(x.Send, [][]byte{make([]byte, 1000)})
			x.Recv = append(x.Recv, [][]byte{b})
		}
		err := l.Exchange(ctx, &x)
		late.Do(func() { time.AfterFunc(time.Second, cancel) })
		for _, b := range got {
			if bytes.Count(b, []byte{canary}) != len(b) {
				return errors.New("data was written that Heads had refused")
			}
		}
		return err
	})
	for rank, err := range errs {
		if err != refusal && !errors.Is(err, context.Canceled) {
			t.Errorf("rank %d: %v, want the very error of Heads", rank, err)
		}
	}
	if !slices.Contains(errs, refusal) {
		t.Errorf("%v, want the very error of Heads", errs)
	}
}

// nothing has exchanges without peers, without data, and with data in one direction only.
func (s linkSuite) nothing(t *testing.T) {
	s.all(t, 3, func(ctx context.Context, l link.Link) error {
		if err := l.Exchange(ctx, &link.Exchange{}); err != nil {
			return fmt.Errorf("without peers: %w", err)
		}
		for range 3 {
			if err := l.Exchange(ctx, &link.Exchange{Peers: others(l)}); err != nil {
				return fmt.Errorf("without data: %w", err)
			}
			x := link.Exchange{Peers: others(l), Send: make([][][]byte, 2), Recv: make([][][]byte, 2)}
			b := make([]byte, 5)
			switch l.Rank() {
			case 0:
				x.Send[1] = [][]byte{nil, []byte("he"), {}, []byte("llo")} // to rank 2
			case 2:
				x.Recv[0] = [][]byte{b[:1], nil, b[1:]}
			}
			if err := l.Exchange(ctx, &x); err != nil {
				return fmt.Errorf("one way: %w", err)
			}
			if l.Rank() == 2 && string(b) != "hello" {
				return fmt.Errorf("%q has come, want hello", b)
			}
		}
		return nil
	})
}

// big sends, in both directions at the same time, more than the buffers between two ranks
// can hold.
func (s linkSuite) big(t *testing.T) {
	for n, size := range map[int]int{2: 64 << 20, 3: 5<<20 + 3} {
		src := make([][]byte, n)
		for r := range src {
			src[r] = pattern(r, size)
		}
		s.all(t, n, func(ctx context.Context, l link.Link) error {
			x := link.Exchange{Peers: others(l)}
			for range x.Peers {
				x.Send = append(x.Send, [][]byte{src[l.Rank()]})
				x.Recv = append(x.Recv, [][]byte{make([]byte, size)})
			}
			if err := l.Exchange(ctx, &x); err != nil {
				return err
			}
			for i, peer := range x.Peers {
				if !bytes.Equal(x.Recv[i][0], src[peer]) {
					return fmt.Errorf("what has come from rank %d is not what it sent", peer)
				}
			}
			return nil
		})
	}
}

// account: the exchange counts exactly the heads and bytes that have moved. Deadlines depend
// on these counts.
func (s linkSuite) account(t *testing.T) {
	ss := steps(3, 12, 100000)
	s.all(t, 3, func(ctx context.Context, l link.Link) error {
		var x link.Exchange
		for _, st := range ss {
			if !slices.Contains(st.members, l.Rank()) {
				continue
			}
			before := x.Moved()
			if err := st.run(ctx, l, &x); err != nil {
				return err
			}
			want := int64(0)
			for _, peer := range x.Peers {
				if want += int64(st.between(l.Rank(), peer) + st.between(peer, l.Rank())); st.heads {
					want++
				}
			}
			if got := x.Moved() - before; got != want {
				return fmt.Errorf("step %d among %v: heads and bytes moved: %d, want %d; call Begin, Came, Sent and Received", st.seed, st.members, got, want)
			}
		}
		return nil
	})
}

// step is an exchange with data that all members can compute.
type step struct {
	members []int // ascending
	heads   bool
	seed    int
	most    int // the largest number of bytes from one rank to another
}

func (s step) between(from, to int) int {
	n := (s.seed*7 + from*5 + to*3) % 11
	switch {
	case n < 3:
		return 0
	case n < 7:
		return n
	}
	return s.most * n / 11
}

func (s step) data(from, to int) []byte { return pattern(s.seed*100+from*10+to, s.between(from, to)) }

func (s step) headOf(rank int) []byte {
	switch (s.seed + rank) % 5 {
	case 0:
		return []byte{byte(rank)}
	case 1:
		return pattern(s.seed*10+rank, link.MaxHead)
	}
	return pattern(s.seed*10+rank, 20+(s.seed*rank)%300)
}

// pattern returns n bytes depending on the seed.
func pattern(seed, n int) []byte {
	b := make([]byte, n)
	x := uint64(seed)*0x9e3779b97f4a7c15 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x >> 24)
	}
	return b
}

// cuts returns b cut into pieces, some of them empty.
func cuts(b []byte, seed int) [][]byte {
	var out [][]byte
	for k := seed % 3; len(b) > 0; k++ {
		n := len(b)
		switch k % 3 {
		case 1:
			n = min(n, 1+seed%7)
		case 2:
			n = 0
		case 0:
			n = (n + 1) / 2
		}
		out = append(out, b[:n:n])
		b = b[n:]
	}
	return out
}

// run does a rank's part of a step, checking the received data.
func (s step) run(ctx context.Context, l link.Link, x *link.Exchange) error {
	me := l.Rank()
	x.Peers, x.Send, x.Recv = x.Peers[:0], nil, nil
	x.Head, x.Heads = nil, nil
	for _, r := range s.members {
		if r != me {
			x.Peers = append(x.Peers, r)
		}
	}
	got := make([][]byte, len(x.Peers))
	recv := make([][][]byte, len(x.Peers))
	for i, peer := range x.Peers {
		out := s.data(me, peer)
		x.Send = append(x.Send, cuts(out, s.seed+me))
		got[i] = bytes.Repeat([]byte{canary}, s.between(peer, me))
		recv[i] = cuts(got[i], s.seed+me+1)
	}
	calls := 0
	if s.heads {
		x.Head = s.headOf(me)
		x.Heads = func(heads [][]byte) error {
			calls++
			if len(heads) != len(x.Peers) {
				return fmt.Errorf("%d heads for %d peers", len(heads), len(x.Peers))
			}
			for i, peer := range x.Peers {
				if !bytes.Equal(heads[i], s.headOf(peer)) {
					return fmt.Errorf("the head of rank %d has %d bytes or other contents, want %d", peer, len(heads[i]), len(s.headOf(peer)))
				}
				if n := bytes.Count(got[i], []byte{canary}); n != len(got[i]) {
					return fmt.Errorf("%d bytes of rank %d were written before the heads were seen", len(got[i])-n, peer)
				}
			}
			x.Recv = recv
			return nil
		}
	} else {
		x.Recv = recv
	}
	if err := l.Exchange(ctx, x); err != nil {
		return fmt.Errorf("step %d among %v: %w", s.seed, s.members, err)
	}
	if s.heads && calls != 1 {
		return fmt.Errorf("step %d among %v: Heads was called %d times, want once", s.seed, s.members, calls)
	}
	for i, peer := range x.Peers {
		if k := differ(got[i], s.data(peer, me)); k >= 0 {
			return fmt.Errorf("step %d among %v: byte %d of %d of rank %d is %#x, want %#x", s.seed, s.members, k, len(got[i]), peer, got[i][k], s.data(peer, me)[k])
		}
		for _, b := range x.Send[i] { // the buffers are the caller's again
			clear(b)
		}
	}
	return nil
}

// steps returns up to count exchanges in a job of n ranks, with changing members and sizes,
// with heads and without.
func steps(n, count, most int) []step {
	var out []step
	for seed := range count {
		var members []int
		for r := range n {
			if seed%4 == 0 || (seed*13+r*7+seed/3)%3 != 0 {
				members = append(members, r)
			}
		}
		if len(members) > 1 {
			out = append(out, step{members, seed%3 != 1, seed, most})
		}
	}
	return out
}
