package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/kernel"
)

// pairProduct is the engine of a halfSet. It computes tiles of C from copies of A and B
// with numbers in pairs. The comment of blocked applies as well: a panel of B that is 512
// deep and 48 wide takes as much memory as one that is 256 deep in float32. Sets of
// squares read A in place if they can.
type pairProduct struct {
	w        *halfWorkspace
	s        *halfSet
	a        []array.Brain
	ars, acs int
	b        []array.Brain
	brs, bcs int

	panels             Panels // panels of B; if zero, B is copied
	to                 taker  // receives sums; nil if sums are written to C
	stream             bool   // B is read in place
	strip              bool   // B is, and elements of its columns are contiguous
	keep               bool   // copies of A are made once
	lies               bool   // A is read in place, except the last rows
	fresh              bool   // B's columns are not copied yet
	j0, jn, k0, kn, at int    // the current columns and depth; at is jn rounded up to whole vectors
}

// If all of A is one block of rows, its copy takes at most keptBytes, and B takes more,
// then the copy of A is kept, and columns are processed panel by panel. The copy of a
// panel is then in the nearest cache when being read, which matters if few rows read it.
const keptBytes = 256 << 10

// squaresBytes is the memory of a block of A in squares: half of the second-level cache
// of the processors that have AMX. With a fourth as many rows, the copy of B, in the
// third-level cache, was read so much more often that products of 1024 took 1.2 times as
// long. If all of A takes no more, columns are processed panel by panel, so the copy of a
// panel stays in the second-level cache.
//
// A is read in place if elements of its rows are contiguous. On one core of a Granite
// Rapids, least times of products of bf16 with and without the copy of A: n=512 240 and
// 308 µs, 256 rows of 1024 times 512 columns 289 and 406, n=1024 2.75 and 2.80 ms, n=2048
// 25 and 28.
const squaresBytes = 1 << 20

// blockColumns is the number of columns of B copied at once, as for float32.
const blockColumns = 1056

func (p *pairProduct) plan(m, n, k int) (rows, cols, deep int) {
	s := p.s
	if p.strip = s.strips != nil && p.panels.mem == nil && stripes(m, n, k, p.acs, p.brs); p.strip {
		return m, n, k
	}
	if p.stream = s.streams[0] != nil && p.panels.mem == nil && m <= s.few && p.bcs == 1 && n >= s.lanes(m); p.stream {
		return m, n, k
	}
	rows, cols = s.rows, kernel.Evenly(n, blockColumns, s.wide)
	most := keptBytes
	if s.squares {
		rows, most = max(s.most, min(manyRows, squaresBytes/2/s.depth(min(k, s.deep))/s.most*s.most)), squaresBytes
		p.lies = p.acs == 1 && k%s.step == 0
	}
	p.keep = m <= rows && (s.squares || 2*n*k > keptBytes) && 2*kernel.RoundUp(m, s.most)*s.depth(k) <= most
	if p.keep {
		cols = s.wide
		kernel.Take(p.w.dry, &p.w.pa, kernel.RoundUp(m-p.first(m), s.most)*s.depth(k)/2)
	}
	return rows, cols, s.copy
}

// first returns the first of m rows for which A is copied.
func (p *pairProduct) first(m int) int {
	switch {
	case !p.lies:
		return 0
	case m%p.s.most == squareRows:
		return m
	}
	return m - m%p.s.most
}

// rounds is true if all of k is one block and tiles are used, except for tiles processing
// many rows in one call and cannot round.
func (p *pairProduct) rounds(k int, to taker) bool {
	if _, brain := to.(*rounded[array.Brain]); p.stream || p.strip || k > p.s.deep || p.s.squares && (p.s.round == nil || !brain) {
		return false
	}
	p.to = to
	return true
}

// lanes divides the number of columns of a stream, for m rows.
func (s *halfSet) lanes(m int) int {
	if !s.squares {
		return streamLanes
	}
	_, rows := streamOf(s.streams, m)
	return streamLanes * streamRows / rows
}

// depth returns k rounded up to the copied depth, with zeros after the end.
func (s *halfSet) depth(k int) int { return kernel.RoundUp(k, s.step) }

// columns allocates the copy of the columns. The first block of rows fills it.
func (p *pairProduct) columns(j0, jn, k0, kn int) {
	p.j0, p.jn, p.k0, p.kn, p.at = j0, jn, k0, kn, kernel.RoundUp(jn, pairLanes)
	if p.stream || p.strip || p.panels.mem != nil {
		return
	}
	kernel.Take(p.w.dry, &p.w.pb, p.at*p.s.depth(kn)/2)
	p.fresh = true
}

// pack copies the panel of v columns from j on, at depth d.
func (p *pairProduct) pack(d, dn, pairs, j, v int) {
	s := p.s
	s.packPairs(p.w.pb[d/2*p.at+j*pairs:], kernel.RoundUp(v, pairLanes), pairs, p.b[(p.k0+d)*p.brs+(p.j0+j)*p.bcs:], v, dn, p.brs, p.bcs)
}

func (p *pairProduct) block(i0, in int, c []float32, ldc int, acc bool) {
	s, w := p.s, p.w
	if p.stream || p.strip {
		lanes := pairLanes
		if p.stream {
			lanes = s.lanes(in)
		}
		whole := p.jn - p.jn%lanes
		switch {
		case p.strip:
			striped(w, s.strips, in, whole, p.kn, s.deep, kernel.From(p.a, i0*p.ars+p.k0), p.ars, kernel.From(p.b, p.k0+p.j0*p.bcs), p.bcs, c, ldc, acc)
		case s.squares:
			p.streamedGroups(in, whole, c, ldc, acc)
		default:
			p.streamed(in, whole, c, ldc, acc)
		}
		if whole < p.jn {
			rest := *p
			rest.stream, rest.strip, rest.b, rest.keep, rest.panels = false, false, kernel.From(p.b, whole*p.bcs), false, Panels{}
			for d := 0; d < p.kn; d += s.copy {
				rest.columns(0, p.jn-whole, d, min(s.copy, p.kn-d))
				rest.block(i0, in, kernel.From(c, whole), ldc, acc || d > 0)
			}
		}
		return
	}
	t, edge := &w.work, w.edge()
	for d := 0; d < p.kn; d += s.deep {
		dn := min(s.deep, p.kn-d)
		pairs := s.depth(dn) / 2
		l := p.rows(i0, in, p.k0+d, dn)
		if w.dry != nil {
			continue
		}
		t.config, t.edge = &w.config, unsafe.Pointer(&edge[0])
		t.deep, t.add = pairs, 0
		if s.squares {
			t.deep = pairs / squarePairs
		}
		if acc || d > 0 {
			t.add = 1
		}
		for j := 0; j < p.jn; j += s.wide {
			v := min(s.wide, p.jn-j)
			if p.fresh {
				p.pack(d, dn, pairs, j, v)
			}
			t.b, t.bstride = p.panel(d, pairs, j), uintptr(4*kernel.RoundUp(v, pairLanes))
			if p.to != nil {
				p.taken(i0, in, j, v, l, edge)
				continue
			}
			p.column(in, v, l, c[j:], ldc, edge)
		}
	}
	p.fresh = false
}

// panel returns the address of the copy of B's columns from j on, in the block of this
// number of pairs at depth d.
func (p *pairProduct) panel(d, pairs, j int) unsafe.Pointer {
	if p.panels.mem != nil {
		return unsafe.Pointer(p.panels.pairs(p.s, p.k0+d, pairs, p.j0+j))
	}
	return unsafe.Pointer(&p.w.pb[d/2*p.at+j*pairs])
}

// pairLeft is a block of A. Rows before first are read in place, with a stride of stride
// elements; the others are in copies.
type pairLeft struct {
	at     []array.Brain
	stride int
	first  int
	copies []uint32
	pairs  int // of a row, in copies
}

// rows returns the rows i0 to i0+in-1 of A, from k0 to k0+kn-1. If copies are kept, it
// copies only for the first columns.
func (p *pairProduct) rows(i0, in, k0, kn int) pairLeft {
	s := p.s
	l := pairLeft{stride: p.ars, first: p.first(in), pairs: s.depth(kn) / 2}
	if l.first > 0 {
		l.at = kernel.From(p.a, i0*p.ars+k0)
	}
	if l.first == in {
		return l
	}
	at, lines := 0, kernel.RoundUp(in-l.first, s.most)
	if p.keep {
		at = k0 / 2 * lines
	}
	l.copies = kernel.From(kernel.Take(p.w.dry, &p.w.pa, at+lines*l.pairs), at)
	if p.keep && p.j0 > 0 || p.w.dry != nil {
		return l
	}
	from := p.a[(i0+l.first)*p.ars+k0*p.acs:]
	if s.squares {
		p.packSquares(l.copies, from, in-l.first, kn)
		return l
	}
	for i := 0; i < in; i += s.most {
		h := min(s.most, in-i)
		_, padded := s.tile(h, 1)
		s.packPairs(l.copies[i*l.pairs:], padded, l.pairs, from[i*p.ars:], h, kn, p.acs, p.ars)
	}
	return l
}

// of makes t read A from row i of l on, returning the number of rows from there with the
// same layout.
func (l *pairLeft) of(t *halfWork, i, m int) int {
	if i < l.first {
		t.a, t.rowStride, t.squareStep, t.sixteen = unsafe.Pointer(&l.at[i*l.stride]), uintptr(2*l.stride), 4*squarePairs, uintptr(2*squareRows*l.stride)
		return l.first - i
	}
	t.a, t.rowStride, t.squareStep, t.sixteen = unsafe.Pointer(&l.copies[(i-l.first)*l.pairs]), 4*squarePairs, 4*squarePairs*squareRows, uintptr(4*squareRows*l.pairs)
	return m - i
}

// column multiplies the m rows of l by the panel of n columns of B to which w.work
// points.
func (p *pairProduct) column(m, n int, l pairLeft, c []float32, ldc int, edge []float32) {
	s, t, padded := p.s, &p.w.work, kernel.RoundUp(n, pairLanes)
	for i := 0; i < m; {
		h := min(s.most, l.of(t, i, m))
		tile, rows := s.tile(h, padded/pairLanes)
		t.blocks = 1
		if h == rows && n == padded {
			t.c, t.cstride = unsafe.Pointer(&c[i*ldc]), uintptr(4*ldc)
			if s.squares {
				t.blocks = l.of(t, i, m) / rows
			}
			tile(t.of())
			i += t.blocks * rows
			continue
		}
		for r := 0; r < h && t.add != 0; r++ {
			copy(edge[r*padded:], c[(i+r)*ldc:][:n])
		}
		t.c, t.cstride = t.edge, uintptr(4*padded)
		tile(t.of())
		for r := range h {
			copy(c[(i+r)*ldc:][:n], edge[r*padded:])
		}
		i += h
	}
}

// taken is column for sums passed to p.to.
func (p *pairProduct) taken(i0, m, j, n int, l pairLeft, edge []float32) {
	s, t, padded := p.s, &p.w.work, kernel.RoundUp(n, pairLanes)
	to, ok := p.to.(*rounded[array.Brain])
	for i := 0; i < m; {
		alike := l.of(t, i, m)
		if ok && s.round != nil && n == s.wide && alike >= s.most {
			t.blocks, t.c, t.cstride = alike/s.most, unsafe.Pointer(&to.c[(i0+i)*to.ldc+p.j0+j]), uintptr(2*to.ldc)
			s.round(t.of())
			i += t.blocks * s.most
			continue
		}
		t.c, t.cstride, t.blocks = t.edge, uintptr(4*padded), 1
		h := min(s.most, alike)
		tile, _ := s.tile(h, padded/pairLanes)
		tile(t.of())
		p.to.take(i0+i, p.j0+j, h, n, edge, padded)
		i += h
	}
}

// streamLanes is the number of columns that a stream handles at once.
const streamLanes = 2 * pairLanes

// streamed multiplies m rows, which are few, by n columns of B in place. n is a multiple
// of streamLanes. An element of C has the same bits as from tiles.
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

// sum streams a block of b, kn by jn. If kn is odd, last holds a row of b and a row of
// zeros.
func (p *pairProduct) sum(do func(*byte), pa []uint32, sums []float32, rows, kn, jn int, b, last []array.Brain) {
	t := &p.w.work
	t.a, t.c, t.cols = unsafe.Pointer(&pa[0]), unsafe.Pointer(&sums[0]), uintptr(2*jn)
	if kn > 1 {
		t.deep, t.b, t.bstride = kn/2, unsafe.Pointer(&b[0]), uintptr(2*p.brs)
		do(t.of())
	}
	if kn%2 > 0 { // the last row of B is paired with zeros
		last = last[:2*jn]
		copy(last, b[(kn-1)*p.brs:][:jn])
		clear(last[jn:])
		t.deep, t.a = 1, unsafe.Pointer(&pa[kn/2*rows])
		t.b, t.bstride = unsafe.Pointer(&last[0]), uintptr(2*jn)
		do(t.of())
	}
}

// addStreamed adds to dst row r of the sums of a stream with this number of rows. Streams
// permute the columns of 32, which it undoes.
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
