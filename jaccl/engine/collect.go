package engine

import (
	"math/bits"
	"slices"

	"github.com/gomoe/gomoe/internal/reduce"
	"github.com/gomoe/gomoe/jaccl/link"
)

const (
	// smallBytes is the largest number of bytes that a member receives for a sum in one
	// exchange, in which every member sends everything to every other member and each
	// member adds everything. For more bytes, two exchanges moving less are faster. Over
	// loopback TCP on two cores one exchange is faster beyond this size, too (4 ranks of
	// 64 KiB: 332 and 431 µs, of 128 KiB: 473 and 478); at 10 Gbit/s and 50 µs per
	// exchange both take equally long at about this size.
	smallBytes = 128 << 10
	// stageBytes is the memory, in bytes, for received data not added yet. Less memory
	// means more exchanges; more memory does not stay in the caches. A sum of 8 MiB over
	// loopback TCP takes 3 ranks 20.9 ms with 128 KiB, 13.4 with 512 KiB, 13.9 with 1 MiB
	// and 18.7 with 4 MiB.
	stageBytes = 1 << 20
)

// sizes are smallBytes and stageBytes; tests set other values.
type sizes struct{ small, stage int }

// operate runs one operation.
func (g *linkGroup) operate(p *post) error {
	if pairwise(p.call.Op) {
		return g.operatePair(p)
	}
	if g.Size() == 1 {
		p.claim(&g.claims[0])
		g.posts[0] = *p
		shareOf(g.ranks, g.posts, g.claims, 0, &g.e.acc)
		return nil
	}
	if err := g.prepare(p, &g.x); err != nil {
		return err
	}
	g.x.Heads = g.listen
	if g.e.shared != nil {
		if done, err := g.inPlace(p); done || err != nil {
			return err
		}
	}
	switch p.call.Op {
	case allSum, allMax, allMin:
		if product(g.Size()-1, len(p.src)) <= g.e.small {
			return g.reduceAtOnce(p)
		}
		return g.reduceInBlocks(p)
	case reduceScatter:
		return g.scatterInBlocks(p)
	case broadcast:
		if g.Size() == 2 || len(p.src) <= g.e.small {
			return g.broadcastAtOnce(p)
		}
		return g.broadcastInBlocks(p)
	}
	for k, i := range g.of {
		switch p.call.Op {
		case allGather:
			g.give(k, p.src)
			g.take(k, p.dst[i*len(p.src):][:len(p.src)])
		case allGatherV:
			g.give(k, p.src)
			g.take(k, p.dsts[i])
		case allToAll:
			g.give(k, p.srcs[i])
			g.take(k, p.dsts[i])
		}
	}
	if err := g.step(); err != nil {
		return err
	}
	switch p.call.Op {
	case allGather:
		copy(p.dst[g.index*len(p.src):], p.src)
	case allGatherV:
		copy(p.dsts[g.index], p.src)
	case allToAll:
		copy(p.dsts[g.index], p.srcs[g.index])
	case split:
		*p.chosen = chosen(g.ranks, g.claims, g.index)
	}
	return nil
}

// operatePair runs a pairwise operation: with one other member, with two, or with itself.
func (g *linkGroup) operatePair(p *post) error {
	if p.to == g.rank() { // then from is this rank as well
		copy(p.dst, p.src)
		return nil
	}
	x := &g.pair
	if err := g.prepare(p, x); err != nil {
		return err
	}
	x.Heads, x.Peers = g.listenPair, x.Peers[:0]
	for _, r := range [...]int{min(p.to, p.from), max(p.to, p.from)} {
		if r != none && !slices.Contains(x.Peers, r) {
			x.Peers = append(x.Peers, r)
		}
	}
	x.Send, x.Recv = x.Send[:len(x.Peers)], x.Recv[:len(x.Peers)] // one peer if to and from are the same
	for k, r := range x.Peers {
		g.with[k] = slices.Index(g.ranks, r)
		if p.to == r {
			x.Send[k] = append(x.Send[k], p.src)
		}
		if p.from == r {
			x.Recv[k] = append(x.Recv[k], p.dst)
		}
	}
	return g.e.exchange(x)
}

// give adds b to the data sent to peer k, an index of x.Peers, in the next step.
func (g *linkGroup) give(k int, b []byte) {
	if len(b) > 0 {
		g.x.Send[k] = append(g.x.Send[k], b)
	}
}

// take adds b to the buffers filled by peer k in the next step.
func (g *linkGroup) take(k int, b []byte) {
	if len(b) > 0 {
		g.x.Recv[k] = append(g.x.Recv[k], b)
	}
}

// step runs one exchange with all members, with the buffers added by give and take, and
// with the head if it has not been sent yet.
func (g *linkGroup) step() error {
	if err := g.e.exchange(&g.x); err != nil {
		return err
	}
	g.x.Head, g.x.Heads = nil, nil
	for k := range g.x.Send {
		g.x.Send[k], g.x.Recv[k] = g.x.Send[k][:0], g.x.Recv[k][:0]
	}
	return nil
}

// reduceAtOnce has every member send its whole src to all others and reduce everything.
func (g *linkGroup) reduceAtOnce(p *post) error {
	n := len(p.src)
	room := g.e.room.of((g.Size() - 1) * stride(n))
	g.srcs[g.index] = p.src
	for k, i := range g.of {
		g.srcs[i] = room[k*stride(n):][:n]
		g.give(k, p.src)
		g.take(k, g.srcs[i])
	}
	if err := g.step(); err != nil {
		return err
	}
	r, _ := reductionOf(p.call)
	g.e.acc.Into(p.dst, r, p.call.DType, g.srcs)
	return nil
}

// reduceInBlocks has member i reduce segment i and send the result to all others. It
// works in rounds: one exchange carries a block to reduce and the result of the block
// before it.
func (g *linkGroup) reduceInBlocks(p *post) error {
	n, size := len(p.src), g.Size()
	r, _ := reductionOf(p.call)
	lo, hi := segment(n, g.index, size)
	_, longest := segment(n, 0, size)
	block := g.block()
	room := g.e.room.of((size - 1) * block)
	rounds := (longest + block - 1) / block
	for round := 0; round <= rounds; round++ {
		now, before := round*block, (round-1)*block
		for k, i := range g.of {
			from, to := segment(n, i, size)
			if round < rounds {
				g.give(k, cut(p.src[from:to], now, block))
				g.srcs[i] = room[k*block:][:len(cut(p.src[lo:hi], now, block))]
				g.take(k, g.srcs[i])
			}
			if round > 0 {
				g.give(k, cut(p.dst[lo:hi], before, block))
				g.take(k, cut(p.dst[from:to], before, block))
			}
		}
		if err := g.step(); err != nil {
			return err
		}
		if round < rounds {
			g.srcs[g.index] = cut(p.src[lo:hi], now, block)
			g.e.acc.Into(cut(p.dst[lo:hi], now, block), r, p.call.DType, g.srcs)
		}
	}
	return nil
}

// scatterInBlocks has every member reduce its own part, block by block.
func (g *linkGroup) scatterInBlocks(p *post) error {
	n, block := len(p.dst), g.block()
	room := g.e.room.of((g.Size() - 1) * min(stride(n), block))
	r, _ := reductionOf(p.call)
	for at := 0; at < n || at == 0; at += block {
		part := cut(p.dst, at, block)
		for k, i := range g.of {
			g.srcs[i] = room[k*min(stride(n), block):][:len(part)]
			g.give(k, cut(p.src[i*n:][:n], at, block))
			g.take(k, g.srcs[i])
		}
		if err := g.step(); err != nil {
			return err
		}
		g.srcs[g.index] = cut(p.src[g.index*n:][:n], at, block)
		g.e.acc.Into(part, r, p.call.DType, g.srcs)
	}
	return nil
}

// broadcastAtOnce has root send everything to every other member.
func (g *linkGroup) broadcastAtOnce(p *post) error {
	for k := range g.of {
		if p.root == g.rank() {
			g.give(k, p.src)
		} else if g.x.Peers[k] == p.root {
			g.take(k, p.dst)
		}
	}
	return g.step()
}

// broadcastInBlocks has root send every other member one segment, which that member
// passes on to the rest: root sends no byte twice. While root sends a block, the members
// pass on the block before it.
func (g *linkGroup) broadcastInBlocks(p *post) error {
	n, size := len(p.src), g.Size()-1
	root := slices.Index(g.ranks, p.root)
	part := func(i int) []byte { // the segment that member i passes on; i is not root
		if i > root {
			i--
		}
		lo, hi := segment(n, i, size)
		return p.dst[lo:hi]
	}
	_, longest := segment(n, 0, size)
	block := g.block()
	rounds := (longest + block - 1) / block
	for round := 0; round <= rounds; round++ {
		now, before := round*block, (round-1)*block
		for k, i := range g.of {
			switch {
			case g.index == root:
				g.give(k, cut(part(i), now, block))
			case i == root:
				g.take(k, cut(part(g.index), now, block))
			case round > 0:
				g.give(k, cut(part(g.index), before, block))
				g.take(k, cut(part(i), before, block))
			}
		}
		if err := g.step(); err != nil {
			return err
		}
	}
	return nil
}

// block returns the number of bytes of a segment carried by one exchange: whole cache
// lines.
func (g *linkGroup) block() int { return max(g.e.stage/(g.Size()-1)/64*64, 64) }

// stride returns n rounded up to whole cache lines, so that the bytes after it are
// aligned.
func stride(n int) int { return (n + 63) / 64 * 64 }

// cut returns at most n bytes of b from index at; nil if at is at or past the end of b.
func cut(b []byte, at, n int) []byte {
	if at >= len(b) {
		return nil
	}
	return b[at:min(at+n, len(b))]
}

// staging is memory for receiving: memory of the link, if the link lends some. It grows
// to the largest size needed by an operation, and is kept for later operations.
type staging struct {
	b       []byte
	lender  link.Lender  // nil for the process's own memory
	release func() error // releases b; nil if b is the process's own memory
}

// of returns n bytes, aligned for elements. They are valid until the next call.
func (s *staging) of(n int) []byte {
	if len(s.b) < n {
		s.close() // before leasing more, because the link may have little to lend
		s.grow(n)
	}
	return s.b[:n]
}

func (s *staging) grow(n int) {
	if s.lender != nil {
		// Sizes are powers of two, because a device keeps a region for each size of
		// lease.
		if b, release, err := s.lender.Lease(1 << bits.Len(uint(n-1))); err == nil {
			s.b, s.release = b, release
			return
		}
	}
	s.b = reduce.Words(make([]uint64, (n+7)/8))
}

// close releases the memory.
func (s *staging) close() error {
	release := s.release
	s.b, s.release = nil, nil
	if release == nil {
		return nil
	}
	return release()
}
