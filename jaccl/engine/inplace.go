package engine

import (
	"fmt"

	"github.com/gomoe/gomoe/jaccl"
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
