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
