package jaccltest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
)

// parting is a split with groups that all ranks can compute: each member's color and key.
type parting struct {
	color, key func(member int) int
}

func partings(size int) []parting {
	zero := func(int) int { return 0 }
	return []parting{
		{zero, zero},
		{zero, func(m int) int { return -m }},
		{func(m int) int { return m % 2 }, func(m int) int { return m / 2 % 2 }},
		{func(m int) int { return m%3 - 1 }, func(m int) int { return (m * 5) % 7 }}, // some members are in no group
		{func(m int) int { return m * 1000003 }, zero},                               // each member is alone
		{func(m int) int { return m / 3 }, func(m int) int { return 1<<40 - m<<30 }},
	}
}

// want returns the ranks of a member's new group, ordered by key and then by rank; nil if the
// member joins no group.
func (p parting) want(ranks []int, member int) []int {
	color := p.color(member)
	if color < 0 {
		return nil
	}
	type place struct{ key, rank int }
	var places []place
	for m, r := range ranks {
		if p.color(m) == color {
			places = append(places, place{p.key(m), r})
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.rank, b.rank)) })
	var out []int
	for _, p := range places {
		out = append(out, p.rank)
	}
	return out
}

// apart splits g, the group of ranks, returning this rank's new group and that group's
// ranks.
func (p parting) apart(c jaccl.Communicator, g jaccl.Group, ranks []int, seq int) (jaccl.Group, []int, error) {
	want := p.want(ranks, g.Rank())
	part, err := g.Split(background(), collective.Call{Op: "split", Seq: seq, Pos: graph.Pos{File: "split.go", Line: seq}}, p.color(g.Rank()), p.key(g.Rank()))
	if err != nil {
		return nil, nil, err
	}
	if (part == nil) != (want == nil) {
		return nil, nil, fmt.Errorf("split %d of %v: rank %d of color %d got %v, want a group of %v", seq, ranks, c.Rank(), p.color(g.Rank()), part, want)
	}
	return part, want, nil
}

// split: new groups are ordered by key, can be split again, and work while the old one does.
func (s suite) split(t *testing.T) {
	long, short := make([][]trial, 9), make([][]trial, 9) // by size
	for n := 1; n <= 8; n++ {
		long[n], short[n] = trials(n, alternating(13)), trials(n, alternating(4))
	}
	for _, n := range []int{1, 2, 5, 8} {
		all(t, s.start(t, n), func(c jaccl.Communicator) error {
			ranks := world(n)
			slices.Reverse(ranks)
			g, err := c.Among(ranks)
			if err != nil {
				return err
			}
			for seq, p := range partings(n) {
				part, members, err := p.apart(c, g, ranks, seq)
				if err != nil {
					return err
				}
				if part != nil {
					if err := playIn(background(), c, part, members, long[len(members)]); err != nil {
						return fmt.Errorf("split %d: %w", seq, err)
					}
					again, fewer, err := partings(n)[2].apart(c, part, members, 0)
					if err != nil {
						return err
					}
					if err := playIn(background(), c, again, fewer, short[len(fewer)]); err != nil {
						return fmt.Errorf("split of split %d: %w", seq, err)
					}
					if err := again.Close(); err != nil {
						return err
					}
					if seq%2 == 1 { // the other groups stay open; later splits make new ones
						if err := part.Close(); err != nil {
							return err
						}
					}
				}
				if err := playIn(background(), c, g, ranks, short[n]); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// closeGroup: after all members have closed a group, Among returns a new group of these
// ranks. Other groups continue, including a group of the same ranks that was split off.
func (s suite) closeGroup(t *testing.T) {
	all(t, s.start(t, 3), func(c jaccl.Communicator) error {
		w := c.World()
		twin, err := w.Split(background(), collective.Call{Op: "split"}, 0, 0)
		if err != nil {
			return err
		}
		for range 3 {
			g, err := c.Among([]int{2, 0, 1})
			if err != nil {
				return err
			}
			for _, group := range []struct {
				g     jaccl.Group
				ranks []int
			}{{g, []int{2, 0, 1}}, {w, world(3)}, {twin, world(3)}} {
				if err := playIn(background(), c, group.g, group.ranks, trials(3, alternating(11))); err != nil {
					return err
				}
			}
			for range 2 {
				if err := g.Close(); err != nil {
					return fmt.Errorf("close of a group: %w", err)
				}
			}
		}
		if err := w.Close(); err != nil {
			return err
		}
		return playIn(background(), c, twin, world(3), trials(3, alternating(11)))
	})
}

// closedGroup: if a rank calls an operation of a group that it has closed, all members get an
// error.
func (s suite) closedGroup(t *testing.T) {
	comms := s.start(t, 3)
	expect(t, Each(comms, func(c jaccl.Communicator) error {
		g := c.World()
		if c.Rank() == 1 {
			if err := g.Close(); err != nil {
				return err
			}
		}
		return g.Barrier(background(), collective.Call{Op: "barrier"})
	}), "rank 1 has closed its end of the group of ranks [0 1 2]")
}

// desertedGroup: members waiting in a group, now or later, for a member that has closed
// the group and does nothing else get an error long before their deadline.
func (s suite) desertedGroup(t *testing.T) {
	for _, op := range []string{"barrier", "recv"} {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/before=%v", op, before), func(t *testing.T) {
				comms := s.start(t, 3)
				closed, done := make(chan struct{}), make(chan struct{})
				began := time.Now()
				errs := Each(comms[1:], func(c jaccl.Communicator) error {
					g, err := c.Among([]int{2, 0, 1})
					if err != nil {
						return err
					}
					if c.Rank() == 1 {
						if !before {
							time.Sleep(30 * time.Millisecond)
						}
						err := g.Close()
						close(closed)
						<-done
						return err
					}
					defer close(done)
					if before {
						<-closed
					}
					if op == "recv" {
						return g.Recv(background(), collective.Call{Op: "recv"}, 2, nil)
					}
					return g.Barrier(background(), collective.Call{Op: "barrier"})
				})
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("it took %v, much of the deadline", took)
				}
				require.NoError(t, errs[0])
				if !errors.Is(errs[1], jaccl.ErrClosed) {
					t.Errorf("rank 2: %v, want %v", errs[1], jaccl.ErrClosed)
				}
				expect(t, errs[1:], "rank 1 has closed its end of the group of ranks [2 0 1]", op+" #0")
			})
		}
	}
}

// closeEarly: a member that has begun all of its operations in a group may close the group,
// while other members are still in these operations or in operations without it.
func (s suite) closeEarly(t *testing.T) {
	all(t, s.start(t, 3), func(c jaccl.Communicator) error {
		for round := range 20 {
			g, err := c.World().Split(background(), collective.Call{Op: "split", Seq: round}, 0, 0)
			if err != nil {
				return err
			}
			b := make([]byte, 1<<round)
			dst := make([]byte, 3*len(b))
			if err := g.AllGather(background(), collective.Call{Op: "all_gather", Seq: 0, DType: graph.U8, Bytes: int64(len(b))}, dst, b); err != nil {
				return err
			}
			x := collective.Call{Seq: 1, DType: graph.U8, Bytes: int64(len(b))}
			if g.Rank() > 0 { // each member passes on the data that it receives
				x.Op = "recv"
				if err := g.Recv(background(), x, g.Rank()-1, b); err != nil {
					return err
				}
			}
			if g.Rank() < 2 {
				x.Op = "send"
				if err := g.Send(background(), x, g.Rank()+1, b); err != nil {
					return err
				}
			}
			if err := g.Close(); err != nil {
				return err
			}
		}
		return nil
	})
}

// pairs: every member sends something to every other member, while the rest do nothing or
// something else.
func (s suite) pairs(t *testing.T) {
	for _, n := range []int{2, 3, 5} {
		all(t, s.start(t, n), func(c jaccl.Communicator) error {
			g := c.World()
			seq := 0
			for from := range n {
				for to := range n {
					for _, count := range []int{0, 3, 9000} {
						seq++
						o := op{name: "send", d: graph.F32, count: count}
						want := values(o.d, count, seq, from)
						call := o.call(seq)
						switch {
						case from == to:
						case c.Rank() == from:
							src := slices.Clone(want)
							if err := g.Send(background(), call, to, src); err != nil {
								return err
							}
							clear(src)
						case c.Rank() == to:
							call.Op = "recv"
							dst, around := buffer(len(want), 3)
							if err := g.Recv(background(), call, from, dst); err != nil {
								return err
							}
							if k := differ(dst, want); k >= 0 || around[margin+2] != canary || around[margin+3+len(dst)] != canary {
								return fmt.Errorf("rank %d got other bytes from rank %d, or more", to, from)
							}
						}
					}
				}
			}
			return playIn(background(), c, g, world(n), trials(n, alternating(5)))
		})
	}
}

// rings has two rings within one group. Each ring passes data round by itself, and the two
// rings make different numbers of rounds.
func (s suite) rings(t *testing.T) {
	all(t, s.start(t, 7), func(c jaccl.Communicator) error {
		ring := []int{0, 2, 4}
		if c.Rank() == 6 {
			return nil
		}
		if c.Rank()%2 == 1 {
			ring = []int{5, 3, 1}
		}
		g, at := c.World(), slices.Index(ring, c.Rank())
		for seq := range 30 * (1 + c.Rank()%2) {
			n := []int{0, 5, 70000}[seq%3]
			to, from := ring[(at+1)%3], ring[(at+2)%3]
			src, dst := pattern(c.Rank()*100+seq, n), make([]byte, n)
			if err := g.SendRecv(background(), collective.Call{Op: "send_recv", Seq: seq}, to, src, from, dst); err != nil {
				return err
			}
			clear(src)
			if k := differ(dst, pattern(from*100+seq, n)); k >= 0 {
				return fmt.Errorf("rank %d, round %d: byte %d of rank %d is wrong", c.Rank(), seq, k, from)
			}
		}
		return nil
	})
}

func (s suite) large(t *testing.T) {
	for n, ops := range large() {
		ts := trials(n, ops)
		all(t, s.start(t, n), func(c jaccl.Communicator) error { return play(c, world(n), ts) })
	}
}

// large returns operations of more bytes than any transport takes in one piece, by the number
// of ranks.
func large() map[int][]op {
	sum := op{name: "all_sum", d: graph.F32, count: 560001, inPlace: true}
	return map[int][]op{2: {sum}, 3: {
		{name: "all_max", d: graph.F32, count: 160001, seed: 1},
		{name: "reduce_scatter", d: graph.I32, count: 160001, seed: 2},
		{name: "broadcast", d: graph.U8, count: 1100003, seed: 3},
		{name: "all_gather", d: graph.U8, count: 600001, seed: 4},
		{name: "all_to_all", d: graph.U8, count: 600001, seed: 5},
		{name: "all_gather_v", d: graph.U8, count: 600001, seed: 6},
		{name: "send_recv", d: graph.U8, count: 1100001, seed: 7},
		{name: "send", d: graph.U8, count: 1100001, seed: 8},
	}}
}
