package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/kernel"
)

// pairProduct is the engine of a halfSet. It computes tiles of C from copies of A and B in
// which numbers lie in pairs. The comment of blocked holds here too: a panel of B that is
// 512 deep and 48 wide takes as much memory as one that is 256 deep in float32.
type pairProduct struct {
	w        *halfWorkspace
	s        *halfSet
	a        []array.Brain
	ars, acs int
	b        []array.Brain
	brs, bcs int

	panels             Panels // panels of B; if zero, B is copied
	to                 taker  // takes sums; nil if sums are written to C
	stream             bool   // B is read where it lies
	keep               bool   // all of A is copied once
	j0, jn, k0, kn, at int    // the current columns and depth; at is jn rounded up to whole vectors
}

// If all of A is one block of rows, its copy takes at most keptBytes, and B takes more, then
// the copy of A is kept, and columns are done panel by panel. The copy of a panel is then in
// the nearest cache when it is read. That matters where few rows read it.
const keptBytes = 256 << 10

// squaresBytes is the memory of a block of A in squares: half of the second-level cache of the
// processors that have AMX. With a fourth as many rows, the copy of B, which lies in the
// third-level cache, was read so much more often that products of 1024 took 1.2 times as long.
const squaresBytes = 1 << 20

// blockColumns is how many columns of B are copied at once, as many as for float32.
const blockColumns = 1056

func (p *pairProduct) plan(m, n, k int) (rows, cols, deep int) {
	if p.stream = p.s.streams[0] != nil && p.panels.mem == nil && m <= p.s.few && p.bcs == 1 && n >= p.s.lanes(m); p.stream {
		return m, n, k
	}
	rows = p.s.rows
	if p.s.squares {
		rows = max(p.s.most, min(manyRows, squaresBytes/2/p.s.depth(min(k, p.s.deep))/p.s.most*p.s.most))
	}
	if m <= rows && 2*n*k > keptBytes && 2*kernel.RoundUp(m, p.s.most)*p.s.depth(k) <= keptBytes {
		p.keep = true
		kernel.Take(p.w.dry, &p.w.pa, kernel.RoundUp(m, p.s.most)*p.s.depth(k)/2)
		return rows, p.s.wide, p.s.copy
	}
	return rows, kernel.Evenly(n, blockColumns, p.s.wide), p.s.copy
}

// rounds is true where all of k is one block and tiles are used, except for tiles that do
// many rows in one call and cannot round.
func (p *pairProduct) rounds(k int, to taker) bool {
	if _, brain := to.(*rounded[array.Brain]); p.stream || k > p.s.deep || p.s.squares && (p.s.round == nil || !brain) {
		return false
	}
	p.to = to
	return true
}

// lanes divides the number of columns that a stream takes, for m rows.
func (s *halfSet) lanes(m int) int {
	if !s.squares {
		return streamLanes
	}
	_, rows := streamOf(s.streams, m)
	return streamLanes * streamRows / rows
}

// depth returns k rounded up to what is copied of k elements, with zeros behind the end.
func (s *halfSet) depth(k int) int { return kernel.RoundUp(k, s.step) }

func (p *pairProduct) columns(j0, jn, k0, kn int) {
	p.j0, p.jn, p.k0, p.kn, p.at = j0, jn, k0, kn, kernel.RoundUp(jn, pairLanes)
	if p.stream || p.panels.mem != nil {
		return
	}
	s := p.s
	pb := kernel.Take(p.w.dry, &p.w.pb, p.at*s.depth(kn)/2)
	if p.w.dry != nil {
		return
	}
	for d := 0; d < kn; d += s.deep {
		dn := min(s.deep, kn-d)
		for j := 0; j < jn; j += s.wide {
			v := min(s.wide, jn-j)
			s.packPairs(pb[d/2*p.at+j*s.depth(dn)/2:], kernel.RoundUp(v, pairLanes), s.depth(dn)/2, p.b[(k0+d)*p.brs+(j0+j)*p.bcs:], v, dn, p.brs, p.bcs)
		}
	}
}

func (p *pairProduct) block(i0, in int, c []float32, ldc int, acc bool) {
	s, w := p.s, p.w
	if p.stream {
		whole := p.jn - p.jn%s.lanes(in)
		if s.squares {
			p.streamedGroups(in, whole, c, ldc, acc)
		} else {
			p.streamed(in, whole, c, ldc, acc)
		}
		if whole < p.jn {
			rest := *p
			rest.stream, rest.b, rest.keep, rest.panels = false, kernel.From(p.b, whole*p.bcs), false, Panels{}
			for d := 0; d < p.kn; d += s.copy {
				rest.columns(0, p.jn-whole, d, min(s.copy, p.kn-d))
				rest.block(i0, in, kernel.From(c, whole), ldc, acc || d > 0)
			}
		}
		return
	}
	t := &w.work
	for d := 0; d < p.kn; d += s.deep {
		dn := min(s.deep, p.kn-d)
		pairs := s.depth(dn) / 2
		pa := p.rows(i0, in, p.k0+d, dn)
		if w.dry != nil {
			continue
		}
		t.deep, t.add = pairs, 0
		if s.squares {
			t.deep = pairs / 16
		}
		if acc || d > 0 {
			t.add = 1
		}
		for j := 0; j < p.jn; j += s.wide {
			v := min(s.wide, p.jn-j)
			t.bstride = uintptr(4 * kernel.RoundUp(v, pairLanes))
			if p.panels.mem != nil {
				t.b = unsafe.Pointer(p.panels.pairs(s, p.k0+d, pairs, p.j0+j))
			} else {
				t.b = unsafe.Pointer(&w.pb[d/2*p.at+j*pairs])
			}
			if p.to != nil {
				p.taken(i0, in, j, v, pairs, pa)
				continue
			}
			p.column(in, v, pairs, pa, c[j:], ldc)
		}
	}
}

// rows returns a copy of the rows i0 to i0+in-1 of A, from k0 to k0+kn-1. If A is kept, it
// copies them only for the first columns.
func (p *pairProduct) rows(i0, in, k0, kn int) []uint32 {
	s := p.s
	pairs := s.depth(kn) / 2
	at, lines := 0, kernel.RoundUp(in, s.most)
	if p.keep {
		at = k0 / 2 * lines
	}
	pa := kernel.From(kernel.Take(p.w.dry, &p.w.pa, at+lines*pairs), at)
	if p.keep && p.j0 > 0 || p.w.dry != nil {
		return pa
	}
	from := p.a[i0*p.ars+k0*p.acs:]
	if s.squares {
		p.packSquares(pa, from, in, kn)
		return pa
	}
	for i := 0; i < in; i += s.most {
		h := min(s.most, in-i)
		_, padded := s.tile(h, 1)
		s.packPairs(pa[i*pairs:], padded, pairs, from[i*p.ars:], h, kn, p.acs, p.ars)
	}
	return pa
}

// column multiplies the tiles of A in pa, m rows in all, with the panel of n columns of B to
// which w.work points.
func (p *pairProduct) column(m, n, pairs int, pa []uint32, c []float32, ldc int) {
	s, w := p.s, p.w
	t, padded := &w.work, kernel.RoundUp(n, pairLanes)
	t.config = &w.config
	for i := 0; i < m; {
		h := min(s.most, m-i)
		tile, rows := s.tile(h, padded/pairLanes)
		t.a, t.blocks = unsafe.Pointer(&pa[i*pairs]), 1
		if h == rows && n == padded {
			t.c, t.cstride = unsafe.Pointer(&c[i*ldc]), uintptr(4*ldc)
			if s.squares {
				t.blocks = (m - i) / rows
			}
			tile(t.of())
			i += t.blocks * rows
			continue
		}
		for r := 0; r < h && t.add != 0; r++ {
			copy(w.edge[r*padded:], c[(i+r)*ldc:][:n])
		}
		t.c, t.cstride = unsafe.Pointer(&w.edge), uintptr(4*padded)
		tile(t.of())
		for r := range h {
			copy(c[(i+r)*ldc:][:n], w.edge[r*padded:])
		}
		i += h
	}
}

// taken is column for sums that p.to takes.
func (p *pairProduct) taken(i0, m, j, n, pairs int, pa []uint32) {
	s, w := p.s, p.w
	t, padded := &w.work, kernel.RoundUp(n, pairLanes)
	t.config = &w.config
	done := 0
	if to, ok := p.to.(*rounded[array.Brain]); ok && s.round != nil && n == s.wide && m >= s.most {
		t.blocks, t.edge = m/s.most, unsafe.Pointer(&w.edge)
		t.a, t.c, t.cstride = unsafe.Pointer(&pa[0]), unsafe.Pointer(&to.c[i0*to.ldc+p.j0+j]), uintptr(2*to.ldc)
		s.round(t.of())
		done = t.blocks * s.most
	}
	t.c, t.cstride, t.blocks = unsafe.Pointer(&w.edge), uintptr(4*padded), 1
	for i := done; i < m; i += s.most {
		h := min(s.most, m-i)
		tile, _ := s.tile(h, padded/pairLanes)
		t.a = unsafe.Pointer(&pa[i*pairs])
		tile(t.of())
		p.to.take(i0+i, p.j0+j, h, n, w.edge[:], padded)
	}
}

// streamLanes is how many columns a stream takes at once.
const streamLanes = 2 * pairLanes

// streamed multiplies m rows, which are few, with n columns of B where they lie. n is a
// multiple of streamLanes. An element of C has the same bits as from tiles.
func (p *pairProduct) streamed(m, n int, c []float32, ldc int, acc bool) {
	s, w := p.s, p.w
	cols := kernel.Evenly(n, 2*streamSums/streamRows, streamLanes)
	_, most := streamOf(s.streams, min(m, streamRows))
	room, all := kernel.Take(w.dry, &w.pa, most*s.deep/2), kernel.Take(w.dry, &w.sums, most*cols)
	var last []array.Brain
	if p.kn%2 > 0 {
		last = brains(kernel.Take(w.dry, &w.pb, min(cols, n)))
	}
	if w.dry != nil {
		return
	}
	for j0 := 0; j0 < n; j0 += cols {
		jn := min(cols, n-j0)
		for k0 := 0; k0 < p.kn; k0 += s.deep {
			kn := min(s.deep, p.kn-k0)
			for i0 := 0; i0 < m; i0 += streamRows {
				in := min(streamRows, m-i0)
				do, rows := streamOf(s.streams, in)
				pa, sums := room[:rows*s.deep/2], all[:rows*cols]
				s.packPairs(pa, rows, (kn+1)/2, p.a[i0*p.ars+k0*p.acs:], in, kn, p.acs, p.ars)
				clear(sums[:rows*jn])
				p.sum(do, pa, sums, rows, kn, jn, p.b[k0*p.brs+j0:], last)
				for r := range in {
					row := c[(i0+r)*ldc+j0:][:jn]
					if !acc && k0 == 0 {
						clear(row)
					}
					addStreamed(row, sums, rows, r)
				}
			}
		}
	}
}

// sum streams a block of b, kn by jn. If kn is odd, last has room for a row of b and a row of
// zeros.
func (p *pairProduct) sum(do func(*byte), pa []uint32, sums []float32, rows, kn, jn int, b, last []array.Brain) {
	t := &p.w.work
	t.a, t.c, t.cols = unsafe.Pointer(&pa[0]), unsafe.Pointer(&sums[0]), uintptr(2*jn)
	if kn > 1 {
		t.deep, t.b, t.bstride = kn/2, unsafe.Pointer(&b[0]), uintptr(2*p.brs)
		do(t.of())
	}
	if kn%2 > 0 { // the last row of B has no neighbour; zeros stand for it
		last = last[:2*jn]
		copy(last, b[(kn-1)*p.brs:][:jn])
		clear(last[jn:])
		t.deep, t.a = 1, unsafe.Pointer(&pa[kn/2*rows])
		t.b, t.bstride = unsafe.Pointer(&last[0]), uintptr(2*jn)
		do(t.of())
	}
}

// addStreamed adds to dst row r of the sums of a stream with this number of rows. Streams
// leave the columns of 32 in another order, which it undoes.
func addStreamed(dst, sums []float32, rows, r int) {
	for j := 0; j < len(dst); j += streamLanes {
		y, low := dst[j:][:streamLanes], sums[j*rows+r*streamLanes:][:streamLanes]
		high := low[pairLanes:]
		for q := 0; q < pairLanes; q += 4 {
			for i := range 4 {
				y[2*q+i] += low[q+i]
				y[2*q+4+i] += high[q+i]
			}
		}
	}
}
