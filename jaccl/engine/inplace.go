package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/internal/reduce"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/link"
)

// directBytes is the size in bytes of the largest call sending its data together with the
// head even if the ranks share memory: up to this size copying through the link is faster
// than another exchange.
const directBytes = 16 << 10

var _ jaccl.Memory = (*engine)(nil)

// Alloc implements jaccl.Memory.
func (e *engine) Alloc(n int) ([]byte, error) {
	if e.shared == nil {
		return nil, fmt.Errorf("jaccl: alloc: %s link: %w", e.link.Transport(), jaccl.ErrUnsupported)
	}
	return e.shared.Alloc(n)
}

// Lease implements collective.Leaser.
func (e *engine) Lease(n int) ([]byte, func() error, error) {
	if e.lender == nil {
		return nil, nil, fmt.Errorf("jaccl: lease: %s link: %w", e.link.Transport(), jaccl.ErrUnsupported)
	}
	return e.lender.Lease(n)
}

// locate appends to at the offsets, in shared memory, of the buffers of p that other
// members read or write: src or its parts, and the dst of a reduction to all members.
// located is false if one of these buffers is not in shared memory.
func (e *engine) locate(p *post, at []int64) (located bool, offsets []int64) {
	if e.shared == nil || pairwise(p.call.Op) {
		return false, at
	}
	located = true
	for _, b := range p.srcs {
		at, located = e.offset(b, at, located)
	}
	if p.srcs == nil {
		at, located = e.offset(p.src, at, located)
	}
	if rewrites(p.call.Op) {
		at, located = e.offset(p.dst, at, located)
	}
	return located, at
}

// offset appends the offset of b in shared memory to at. It returns false if ok is false
// or b is not in shared memory; an empty b counts as being there.
func (e *engine) offset(b []byte, at []int64, ok bool) ([]int64, bool) {
	var offset int64
	if ok && len(b) > 0 {
		offset, ok = e.shared.Locate(b)
	}
	if !ok {
		return at[:0], false
	}
	return append(at, offset), true
}

// rewrites reports whether members write to each other's dst.
func rewrites(op string) bool { return op == allSum || op == allMax || op == allMin }

// inPlace runs p directly on the members' buffers, if all of them are in shared memory.
// done is false if the data has to be sent; by then nothing has been exchanged, or only
// the heads.
func (g *linkGroup) inPlace(p *post) (done bool, err error) {
	switch p.call.Op {
	case barrier, split:
		return false, nil
	case allToAll, allGatherV: // members do not know each other's lengths: the call's bytes decide
		if p.call.Bytes > 0 && p.call.Bytes <= directBytes {
			return false, nil
		}
	default:
		if len(p.src) <= directBytes {
			return false, nil
		}
	}
	if err := g.step(); err != nil {
		return false, err
	}
	for i := range g.heads {
		if !g.heads[i].located {
			return false, nil
		}
	}
	for i := range g.posts {
		if i == g.index {
			g.posts[i] = *p
		} else if err := g.view(i, p); err != nil {
			return false, err
		}
	}
	shareOf(g.ranks, g.posts, g.claims, g.index, &g.e.acc)
	return true, g.await()
}

// closing is the only byte of the head in the exchange ending an operation on shared
// memory.
const closing = 0xff

// await returns when all members have called it. Before that a member's buffers may
// still be in use by others.
func (g *linkGroup) await() error {
	g.head = append(g.head[:0], closing)
	g.x.Head, g.x.Heads = g.head, g.listenEnd
	return g.step()
}

// heardEnd implements Exchange.Heads for the exchange ending an operation.
func (g *linkGroup) heardEnd(heads [][]byte) error {
	for k, b := range heads {
		if len(b) != 1 || b[0] != closing {
			rank := g.x.Peers[k]
			return &failure{[]int{rank}, fmt.Sprintf("rank %d sent rank %d the head of an operation before the end of another", rank, g.rank()), jaccl.ErrMismatch}
		}
	}
	return nil
}

// view fills in the post of member i from the member's head: the buffers are views of the
// member's shared memory, at the offsets in the head. mine is this rank's post of the
// same operation.
func (g *linkGroup) view(i int, mine *post) error {
	h, p := &g.heads[i], &g.posts[i]
	c := &h.claim
	srcs := p.srcs[:0]
	*p = post{call: c.call, root: mine.root}
	p.call.Pairs = mine.call.Pairs // not in heads: ranks run one plan
	v := viewer{shared: g.e.shared, rank: g.ranks[i], at: h.at}
	if mine.srcs == nil {
		p.src = v.see(c.bytes)
	}
	for _, n := range c.gives {
		srcs = append(srcs, v.see(n))
	}
	p.srcs = srcs
	if rewrites(c.call.Op) {
		p.dst = v.see(c.bytes)
	}
	if v.err != nil {
		return &failure{[]int{g.ranks[i]}, fmt.Sprintf("rank %d sent rank %d buffers that cannot be used, in %s: %v", g.ranks[i], g.rank(), c.call, v.err), jaccl.ErrMismatch}
	}
	return nil
}

// viewer returns views of a peer's buffers, one after another. After an error it returns
// nil.
type viewer struct {
	shared link.Shared
	rank   int
	at     []int64 // the offsets of the remaining buffers
	err    error
}

// see returns the next buffer, of n bytes.
func (v *viewer) see(n int) []byte {
	if v.err != nil {
		return nil
	}
	if len(v.at) == 0 {
		v.err = errors.New("a buffer has no offset")
		return nil
	}
	offset := v.at[0]
	v.at = v.at[1:]
	if n == 0 {
		return nil
	}
	var b []byte
	if b, v.err = v.shared.View(v.rank, offset, n); v.err == nil && len(b) != n {
		v.err = fmt.Errorf("a view of %d bytes at %d, want %d", len(b), offset, n)
	}
	return b
}

// aloneBytes is the largest volume for which the last member to arrive does the work of
// all members, which saves the others a second wait. Sums of 4 ranks on two cores take
// equally long either way at 64 KiB (f32 8 and 9 µs, bf16 29 and 28 µs); with more cores
// they do so at a smaller volume.
const aloneBytes = 32 << 10

// shareOf does member i's share of the operation that posts describe, directly on the
// buffers of the posts. The shares of different members may run at the same time: no
// share writes bytes that another one reads or writes, even if dst is src.
func shareOf(ranks []int, posts []post, claims []claim, i int, acc *reduce.Accumulator) {
	p := &posts[i]
	switch p.call.Op {
	case broadcast:
		if root := slices.Index(ranks, p.root); root != i {
			copy(p.dst, posts[root].src)
		}
	case split:
		*p.chosen = chosen(ranks, claims, i)
	case send, recv, sendRecv:
		if other := 1 - i; p.from == ranks[other] {
			copy(p.dst, posts[other].src)
		}
	case allSum, allMax, allMin:
		// Member i reduces a segment and writes it to everyone: no other member reads
		// that segment of any src.
		lo, hi := segment(len(p.src), i, len(posts))
		for ; lo < hi; lo += reduce.BlockBytes {
			end := min(lo+reduce.BlockBytes, hi)
			sum := reduced(acc, posts, lo, end, posts[0].dst[lo:end])
			for k := range posts {
				copy(posts[k].dst[lo:end], sum) // no-op if sum is already there
			}
		}
		clear(acc.Blocks)
	case reduceScatter:
		n := len(p.dst)
		for lo := 0; lo < n; lo += reduce.BlockBytes {
			end := min(lo+reduce.BlockBytes, n)
			copy(p.dst[lo:end], reduced(acc, posts, i*n+lo, i*n+end, p.dst[lo:end]))
		}
		clear(acc.Blocks)
	case allGather:
		for k := range posts {
			copy(p.dst[k*len(p.src):], posts[k].src)
		}
	case allGatherV:
		for k := range posts {
			copy(p.dsts[k], posts[k].src)
		}
	case allToAll:
		for k := range posts {
			copy(p.dsts[k], posts[k].srcs[i])
		}
	}
}

// reduced returns the reduction of bytes lo to hi of every post's src. The result is in
// dst or in other memory; see Accumulator.Block.
func reduced(a *reduce.Accumulator, posts []post, lo, hi int, dst []byte) []byte {
	a.Blocks = a.Blocks[:0]
	for k := range posts {
		a.Blocks = append(a.Blocks, posts[k].src[lo:hi])
	}
	r, _ := reductionOf(posts[0].call)
	return a.Block(r, posts[0].call.DType, a.Blocks, dst)
}

// segment returns the range of a buffer of n bytes that member i of size members reduces.
// Segments consist of whole cache lines, except for the last one, so that no two members
// write to the same line.
func segment(n, i, size int) (lo, hi int) {
	const line = 64
	step := (n/size + min(n%size, 1) + line - 1) / line * line
	return min(i*step, n), min((i+1)*step, n)
}

// reductionOf returns the reduction of an operation; false for operations that only move
// elements.
func reductionOf(c collective.Call) (r reduce.Op, ok bool) {
	switch c.Op {
	case allSum, reduceScatter:
		if c.Pairs {
			return reduce.Pairs, true
		}
		return reduce.Sum, true
	case allMax:
		return reduce.Max, true
	case allMin:
		return reduce.Min, true
	}
	return 0, false
}
