package engine

import (
	"slices"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/internal/reduce"
)

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
