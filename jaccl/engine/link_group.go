package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/link"
)

// linkGroup is one rank's view of a group over a link. It implements jaccl.Group.
type linkGroup struct {
	operations
	e    *engine
	key  string
	id   uint64
	of   []int // for each of x.Peers, its index in the group
	x    link.Exchange
	pair link.Exchange // of the same operation
	with [2]int        // for each of pair.Peers, its index in the group

	heads  []head   // by member; this rank's own comes from its post
	claims []claim  // the claims in heads, as arguments of disagreement
	head   []byte   // the encoding of this rank's head
	posts  []post   // by member, for operations on shared memory
	srcs   [][]byte // by member, the inputs of a reduction

	// listen, listenPair and listenEnd are the method values of heard, heardPair and
	// heardEnd, made once so that an operation does not allocate them.
	listen, listenPair, listenEnd func([][]byte) error

	splits int // number of splits that this member has called

	// Guarded by the engine's lock:
	begun  begun
	closed bool
}

var _ jaccl.Group = (*linkGroup)(nil)

func newLinkGroup(e *engine, key string, ranks []int) *linkGroup {
	n := len(ranks)
	g := &linkGroup{e: e, key: key, id: hash(key), heads: make([]head, n), claims: make([]claim, n), posts: make([]post, n), srcs: make([][]byte, n)}
	g.operations = operations{ranks: ranks, index: slices.Index(ranks, e.rank), run: g}
	g.begun.pairs = make([]uint64, n)
	g.listen, g.listenPair, g.listenEnd = g.heard, g.heardPair, g.heardEnd
	sorted := slices.Sorted(slices.Values(ranks))
	for _, r := range sorted {
		if r != e.rank {
			g.x.Peers = append(g.x.Peers, r)
			g.of = append(g.of, slices.Index(ranks, r))
		}
	}
	g.x.Send, g.x.Recv = make([][][]byte, n-1), make([][][]byte, n-1)
	g.x.Left, g.pair.Left = e.watch.Left, e.watch.Left
	g.x.Alike, g.pair.Alike = true, true // members compare the lengths of all parts in Heads
	g.pair.Peers = make([]int, 0, 2)
	g.pair.Send, g.pair.Recv = make([][][]byte, 2), make([][][]byte, 2)
	return g
}

// meet implements runner.
func (g *linkGroup) meet(ctx context.Context, p post, bad *failure) error {
	e := g.e
	if !e.inUse.CompareAndSwap(false, true) {
		return e.fail(busy(e.rank, p.call), p.call).seen(ctx, e.rank, p.call)
	}
	defer e.inUse.Store(false)
	if f := g.obstacle(); f != nil {
		return e.fail(f, p.call).seen(ctx, e.rank, p.call)
	}
	if bad == nil && ctx.Err() != nil {
		bad = left(ctx, e.rank, p.call)
	}
	if bad != nil {
		return e.fail(bad, p.call).seen(ctx, e.rank, p.call)
	}
	e.at.enter(&p, g.ranks)
	defer e.at.leave()
	e.begin(ctx, g, &p)
	e.works.Lock()
	err := g.operate(&p)
	e.works.Unlock()
	e.finish()
	if err != nil {
		x := &g.x
		if pairwise(p.call.Op) {
			x = &g.pair
		}
		failed := e.settled(e.diagnose(ctx, g, x, p.call, err)).seen(ctx, e.rank, p.call)
		failed.Outstanding = x.Outstanding()
		err = failed
	}
	g.forget()
	return err
}

// obstacle returns the reason why no operation can start, or nil.
func (g *linkGroup) obstacle() *failure {
	e := g.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := e.known(); f != nil {
		return f
	}
	if e.closed {
		return gone(e.rank)
	}
	if g.closed {
		return goneFrom(e.rank, g.ranks)
	}
	return nil
}

// forget drops all references to the caller's buffers: the group outlives them.
func (g *linkGroup) forget() {
	for _, x := range [...]*link.Exchange{&g.x, &g.pair} {
		x.Head, x.Heads = nil, nil
		for _, bufs := range [...][][][]byte{x.Send, x.Recv} {
			for i, b := range bufs {
				clear(b[:cap(b)]) // the buffers of earlier steps lie past the length
				bufs[i] = b[:0]
			}
		}
	}
	for i := range g.posts {
		var srcs [][]byte
		if i != g.index { // the list belongs to this group and is reused
			srcs = g.posts[i].srcs[:0]
			clear(srcs[:cap(srcs)])
		}
		g.posts[i] = post{srcs: srcs}
	}
	clear(g.srcs)
}

// prepare makes the head of p, putting it into x. It returns an error if the head is too
// large.
func (g *linkGroup) prepare(p *post, x *link.Exchange) error {
	h := &g.heads[g.index]
	p.claim(&h.claim)
	if file := p.call.Pos.File; file != "" { // messages show the base name only
		h.claim.call.Pos.File = nameText(filepath.Base(file))
	}
	h.claim.call.Pos.Scope = nameText(h.claim.call.Pos.Scope)
	h.group, h.ranks = g.id, g.ranks
	h.located, h.at = g.e.locate(p, h.at[:0])
	g.claims[g.index] = h.claim
	g.head = h.append(g.head[:0])
	if len(g.head) > link.MaxHead {
		return argument(g.e.rank, p.call, "%d bytes of lengths and ranks for %d members, want at most %d: use smaller groups", len(g.head), g.Size(), link.MaxHead)
	}
	x.Head = g.head
	return nil
}

// hear reads the head of member i, keeping its claim. It returns an error if the head is
// invalid or belongs to an operation of another group.
func (g *linkGroup) hear(i int, b []byte) error {
	h := &g.heads[i]
	h.claim.call.Pos = g.heads[g.index].claim.call.Pos // decode keeps it if it is the same
	err := h.decode(b)
	if err == nil {
		err = h.claim.complete(len(h.ranks))
	}
	if err != nil {
		return &failure{[]int{g.ranks[i]}, fmt.Sprintf("rank %d sent rank %d a head that cannot be read: %v", g.ranks[i], g.rank(), err), jaccl.ErrMismatch}
	}
	g.claims[i] = h.claim
	mine := &g.heads[g.index]
	if h.group == g.id && slices.Equal(h.ranks, g.ranks) {
		return nil
	}
	lo, hi := mine, h
	loRank, hiRank := g.rank(), g.ranks[i]
	if hiRank < loRank {
		lo, hi, loRank, hiRank = hi, lo, hiRank, loRank
	}
	text := fmt.Sprintf("rank %d calls %s among ranks %v where rank %d calls %s among ranks %v", hiRank, hi.claim.call, hi.ranks, loRank, lo.claim.call, lo.ranks)
	if slices.Equal(h.ranks, g.ranks) {
		text += ", which is another group of the same ranks"
	}
	return &failure{[]int{hiRank, loRank}, text, jaccl.ErrMismatch}
}

// heard implements Exchange.Heads for operations of all members.
func (g *linkGroup) heard(heads [][]byte) error {
	if len(heads) != len(g.of) {
		return errors.New("jaccl: link: not one head for each peer")
	}
	for k, b := range heads {
		if err := g.hear(g.of[k], b); err != nil {
			return err
		}
	}
	if f := disagreement(g.ranks, g.claims); f != nil {
		return f
	}
	return nil
}

// heardPair implements Exchange.Heads for pairwise operations.
func (g *linkGroup) heardPair(heads [][]byte) error {
	if len(heads) != len(g.pair.Peers) {
		return errors.New("jaccl: link: not one head for each peer")
	}
	for k, b := range heads {
		i := g.with[k]
		if err := g.hear(i, b); err != nil {
			return err
		}
		if f := quarrel(g.ranks, g.claims, min(i, g.index), max(i, g.index)); f != nil {
			return f
		}
	}
	return nil
}

// child implements runner.
func (g *linkGroup) child(ranks []int, color int) (jaccl.Group, error) {
	key := splitKey(g.key, g.splits, color)
	g.splits++
	if ranks == nil {
		return nil, nil
	}
	g.e.mu.Lock()
	defer g.e.mu.Unlock()
	return g.e.group(key, ranks), nil
}

// Close implements jaccl.Group. Members that wait for this one in the group, now or later, get
// an error at once.
func (g *linkGroup) Close() error {
	e := g.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	if !e.closed && g.Size() > 1 {
		for i, rank := range g.ranks {
			if rank != e.rank {
				e.watch.Tell(rank, link.Parting{Group: g.id, Begun: g.begun.with(i)})
			}
		}
		e.partings.close(g.id, g.Size()-1)
	}
	if base := fmt.Sprint(g.ranks); g.key == groupKey(g.ranks, e.closes) {
		e.closes[base]++
	}
	delete(e.groups, g.key)
	return nil
}
