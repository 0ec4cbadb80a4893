package jaccltest

import (
	"bytes"
	"context"
	"fmt"

	"github.com/gomoe/gomoe/jaccl/link"
)

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
