package engine

import (
	"errors"
	"fmt"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/link"
)

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
