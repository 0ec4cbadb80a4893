package engine

import (
	"context"
	"fmt"
	"slices"
)

// meetPairs runs a pairwise operation: this member and each of the one or two named
// members meet in a rendezvous of that pair, and the rest of the group continues.
func (m *member) meetPairs(ctx context.Context, p post) error {
	if p.to == m.rank() { // then from is this rank as well
		if f := m.own(); f != nil {
			return m.fail(ctx, p.call, f)
		}
		copy(p.dst, p.src)
		return nil
	}
	switch {
	case p.to == none:
		return m.with(p.from).among(ctx, p)
	case p.from == none || p.from == p.to:
		return m.with(p.to).among(ctx, p)
	}
	giving, taking := p, p
	giving.dst, taking.src = nil, nil
	to, from := m.with(p.to), m.with(p.from)

	// A member arrives at both pairs before waiting at either, so that a ring of members
	// does not deadlock. For the same reason it finishes its share of both before waiting
	// for others to finish theirs.
	lastTo, f := to.arrive(&giving)
	arrived := f == nil
	var lastFrom, takes, gives, taken, given bool
	if arrived {
		lastFrom, f = from.arrive(&taking)
	}
	if arrived && f == nil {
		if takes, f = from.begin(ctx, p.call, lastFrom); takes {
			from.share()
			taken = from.done()
		}
	}
	if arrived { // even if the pair with from has failed: the member at to may count on this one
		var g *failure
		if gives, g = to.begin(ctx, p.call, lastTo); gives {
			given = to.done()
		}
		if f == nil {
			f = g
		}
	}
	if gives && !given {
		<-to.wake
	}
	if takes && !taken {
		<-from.wake
	}
	to.r.posts[to.index], from.r.posts[from.index] = post{}, post{}
	if f != nil {
		return f.near(ctx, m.rank(), p.call)
	}
	return nil
}

// own returns the reason why this member cannot run even an operation with itself alone,
// or nil.
func (m *member) own() *failure {
	j := m.r.job
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.first != nil:
		return j.first
	case j.closed[m.rank()]:
		return gone(m.rank())
	case m.r.closed[m.index]:
		return goneFrom(m.rank(), m.r.ranks)
	}
	return nil
}

// with returns this member in the rendezvous of its pair with another rank of the group.
func (m *member) with(rank int) *member {
	if len(m.r.ranks) == 2 {
		return m
	}
	other := slices.Index(m.r.ranks, rank)
	if m.pairs == nil {
		m.pairs = make([]*member, len(m.r.ranks))
	}
	if m.pairs[other] == nil {
		m.pairs[other] = m.r.pair(m.index, other)
	}
	return m.pairs[other]
}

// pair returns member i in the rendezvous of members i and k.
func (r *rendezvous) pair(i, k int) *member {
	lo, hi := min(i, k), max(i, k)
	r.job.mu.Lock()
	defer r.job.mu.Unlock()
	p := r.pairs[[2]int{lo, hi}]
	if p == nil {
		key := fmt.Sprintf("%s:%d,%d", r.key, lo, hi)
		p = newRendezvous(r.job, key, []int{r.ranks[lo], r.ranks[hi]})
		p.whole = r.ranks
		p.closed[0], p.closed[1] = r.closed[lo], r.closed[hi]
		if r.pairs == nil {
			r.pairs = map[[2]int]*rendezvous{}
		}
		r.pairs[[2]int{lo, hi}] = p
		r.job.groups[key] = p
	}
	if i == lo {
		return p.members[0]
	}
	return p.members[1]
}
