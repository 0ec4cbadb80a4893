package attention

import (
	"math"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/pack"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// These are the sizes of blocks of attention in lanes, in which every lane of a vector is
// a query. Scores have a row for each key and a column for each query. So softmax runs
// down the lanes, without sums across them, leaving the powers in the layout of the next
// product. Measured at D=64 with AVX-512 on a core with caches of 48 KiB and 1 MiB.
const (
	laneQueries = 96 // a product handles laneGroup of them at once
	laneKeys    = 96
	laneGroup   = 48
	groupVecs   = 3 // the most vectors that a product handles at once
)

// laneSet holds the functions of one instruction set.
type laneSet struct {
	width, rows                                    int // lanes of a vector; rows of a product's tile
	byRow, byCol                                   [groupVecs]func(*byte)
	softmax, grad, mask, divide, scaleRows, addRow func(*byte)
	few                                            fewSet
}

// laneProduct is the argument of products. Strides are in bytes.
type laneProduct struct {
	tiles   int // number of tiles of c, one below the other
	deep    int // number of products summed per element, at least 1
	a       unsafe.Pointer
	astride uintptr
	b       unsafe.Pointer
	bstride uintptr
	c       unsafe.Pointer
	cstride uintptr
	add     uintptr
}

// laneScores is the state of 16 queries of a block, and the argument of the loops over
// their scores.
type laneScores struct {
	keys       int // rows of p and ds
	p          unsafe.Pointer
	stride     uintptr // from a row of p and ds to the next, in bytes
	ds         unsafe.Pointer
	sums       unsafe.Pointer
	rows       int // the number of rows of sums
	base       int32
	fill       float32
	top, total [kernel.Lanes]float32 // the largest score, and the sum of p
	lse, delta [kernel.Lanes]float32
}

// laneRows is the argument of loops over rows. Strides are in bytes.
type laneRows struct {
	count, bytes int // the number of rows; the bytes of a row, a multiple of 64
	dst          unsafe.Pointer
	dstride      uintptr
	src          unsafe.Pointer
	sstride      uintptr
	scale        float32
	odd          uint32 // set by the loop: not 0 if an element of src was Inf or NaN
}

// These lines compile only if the offsets match asm/attention.go.
const (
	_ = -(unsafe.Offsetof(laneProduct{}.add) ^ 64)
	_ = -(unsafe.Offsetof(laneProduct{}.c) ^ 48)
	_ = -(unsafe.Offsetof(laneScores{}.rows) ^ 40)
	_ = -(unsafe.Offsetof(laneScores{}.fill) ^ 52)
	_ = -(unsafe.Offsetof(laneScores{}.delta) ^ 248)
	_ = -(unsafe.Offsetof(laneRows{}.sstride) ^ 40)
	_ = -(unsafe.Offsetof(laneRows{}.odd) ^ 52)
)

// lanes is the memory of attention in lanes, of float32. A row of D elements occupies
// `wide` elements, which fill whole vectors, and a row of V elements `broad`. Elements after
// the end of a row, and rows after the last, are undefined; results computed from them
// are not used.
type lanes struct {
	dry     *kernel.Dry // nil in a real run
	vec     kernel.Kind
	set     laneSet
	packs   *pack.Set
	product laneProduct
	rows    laneRows
	scores  [laneQueries / kernel.Lanes]laneScores
	few     fewWork

	ready  int       // number of keys and values in k and v
	k, v   []float32 // [keys, wide] and [keys, broad], or of one block of keys
	odd    []bool    // for each block of keys, whether its values have an Inf or a NaN
	qt, gt []float32 // [D, width] and [V, width]: scaled queries, and cotangents of out, as columns
	q, g   []float32 // [queries, wide] and [queries, broad]: the same in rows
	p, ds  []float32 // [keys of a block, width]
	slopes []float32 // [keys of a block, width]: the derivative of Cap tanh(x / Cap)
	sums   []float32 // weighted sums of the values of a span, [broad, width], or of keys in backward, [wide, width]
	dk, dv []float32 // [keys, wide] and [keys, broad]
	spare  []float32

	whole              []float32            // as sums, of all spans of keys so far
	top, total         [laneQueries]float32 // of whole
	spanTop, spanTotal [laneQueries]float32 // of sums
}

func at(x []float32, i int) unsafe.Pointer { return unsafe.Pointer(&x[i]) }

// begin prepares w for other keys and values, and for the kernels vec.
func (w *lanes) begin(vec kernel.Kind) {
	w.ready = 0
	if w.vec != vec && vec != kernel.Portable {
		w.set, w.packs = laneSetOf(vec)
	}
	w.vec = vec
}

// laneBlock is a block of n queries from first on. Its columns are padded to width, a
// multiple of kernel.Lanes, rows of D elements to wide, and rows of V elements to broad.
type laneBlock struct {
	Attention[float32]
	first, n, width, wide, broad int
	few                          int // 0, or the rows of scores if lanes are keys: see few.go
}

func (w *lanes) blockAt(a Attention[float32], i0, to int) laneBlock {
	n := min(laneQueries, to-i0)
	return laneBlock{a, i0, n, kernel.RoundUp(n, kernel.Lanes), kernel.RoundUp(a.D, kernel.Lanes), kernel.RoundUp(a.V, kernel.Lanes), fewRows(a, n)}
}

// keys returns the end of the range of keys that the block attends to.
func (b *laneBlock) keys() int { return b.until(b.first + b.n - 1) }

// begin returns the start of the block of keys containing the first key that the block
// attends to.
func (b *laneBlock) begin() int { return max(b.since(b.first), 0) / laneKeys * laneKeys }

// group returns the number of columns per product.
func (b *laneBlock) group() int { return kernel.Evenly(b.width, laneGroup, kernel.Lanes) }

// seen returns the number of the n keys from j0 on, up to the last that some column
// before c attends to, in whole tiles of products or all n: keys after it are masked.
func (b *laneBlock) seen(j0, n, c int) int {
	return max(min(n, kernel.RoundUp(b.until(b.first+min(c, b.n)-1)-j0, 8)), 0)
}

// forward is Attender.Forward.
func (w *lanes) forward(a Attention[float32], k, v kernel.Rows[float32], kept *[2]Stored, q, out kernel.Rows[float32], lse []float32, with Terms[float32], from, to int) {
	once := to-from <= laneQueries // no other block of queries reads the copies of keys
	for i0 := from; i0 < to; i0 += laneQueries {
		b := w.blockAt(a, i0, to)
		w.take(b)
		if w.dry != nil {
			if b.few == 0 {
				w.pack(a, k, v, kept, 0, b.keys(), once)
			}
			return // no block is wider
		}
		w.queries(b, q)
		first, end := b.spans()
		if end-first == 1 && len(with.Sinks) == 0 {
			x := w.spanOf(b, k, v, kept, with.Bias, first, once)
			w.finish(b, x, out, lse)
			continue
		}
		all := b.sums(w.top[:], w.total[:], w.whole)
		all.begin(b.n, b.broad, with, i0)
		for k0 := first; k0 < end; k0++ {
			x := w.spanOf(b, k, v, kept, with.Bias, k0, once)
			all.join(b.n, b.V, &x)
		}
		w.finish(b, all, out, lse)
	}
}

// span computes the sums for Attender.Span.
func (w *lanes) span(a Attention[float32], k, v kernel.Rows[float32], kept *[2]Stored, q kernel.Rows[float32], with Terms[float32], from, to, k0 int) sums[float32] {
	b := w.blockAt(a, from, to)
	w.take(b)
	w.queries(b, q)
	return w.spanOf(b, k, v, kept, with.Bias, k0, true)
}

// sums returns the sums of the block in the elements of values: a row per query if the
// block has few queries, and otherwise a column per query.
func (b *laneBlock) sums(top, total, values []float32) sums[float32] {
	if b.few > 0 {
		return sums[float32]{top, total, values[:b.n*b.V], b.V, 1}
	}
	return sums[float32]{top, total, values[:b.broad*b.width], 1, b.width}
}

// take allocates the memory for a block of queries.
func (w *lanes) take(b laneBlock) {
	if b.few > 0 {
		w.takeFew(b)
		return
	}
	kernel.Take(w.dry, &w.qt, b.D*b.width)
	kernel.Take(w.dry, &w.sums, b.broad*b.width)
	kernel.Take(w.dry, &w.whole, b.broad*b.width)
	kernel.Take(w.dry, &w.p, laneKeys*b.width)
}

// queries sets w.qt to the scaled queries of a block.
func (w *lanes) queries(b laneBlock, q kernel.Rows[float32]) {
	if b.few > 0 {
		w.fewQueries(b, q)
		return
	}
	qt := w.qt[:b.D*b.width]
	w.columns(qt, b.width, q.From(b.first).X, b.n, b.D, q.Stride)
	w.scaleRows(qt, 0, qt, 0, 1, len(qt), b.Scale)
}

// spans returns the first of the spans with keys that a query of the block attends to,
// and the end of the spans.
func (b *laneBlock) spans() (first, end int) {
	first = b.begin() / span
	return first, max((b.keys()+span-1)/span, first)
}

// spanOf computes the sums over span k0 of the keys for the block. The result lies in w.
func (w *lanes) spanOf(b laneBlock, k, v kernel.Rows[float32], kept *[2]Stored, bias kernel.Rows[float32], k0 int, once bool) sums[float32] {
	if b.few > 0 {
		return w.fewSpan(b, k, v, kept, bias, k0)
	}
	values := w.sums[:b.broad*b.width]
	clear(values)
	for c := range b.width / kernel.Lanes {
		s := &w.scores[c]
		s.total = [kernel.Lanes]float32{}
		for i := range s.top {
			s.top[i] = float32(math.Inf(-1))
		}
	}
	end := min((k0+1)*span, b.keys())
	for j0 := max(b.begin(), k0*span); j0 < end; j0 += laneKeys {
		keys, values := w.pack(b.Attention, k, v, kept, j0, b.keys(), once)
		w.softmax(b, keys, values, w.p[:laneKeys*b.width], bias, j0)
	}
	for i := range b.n {
		s := &w.scores[i/kernel.Lanes]
		w.spanTop[i], w.spanTotal[i] = s.top[i%kernel.Lanes], s.total[i%kernel.Lanes]
	}
	return b.sums(w.spanTop[:], w.spanTotal[:], w.sums)
}

// softmax adds the block of keys from j0 on to the block's sums. keys and values begin
// with key j0.
func (w *lanes) softmax(b laneBlock, keys, values, p []float32, bias kernel.Rows[float32], j0 int) {
	jn := min(laneKeys, b.keys()-j0)
	group := b.group()
	for c := 0; c < b.width; c += group {
		cn := min(group, b.width-c)
		n := b.seen(j0, jn, c+cn)
		if n == 0 {
			continue
		}
		w.byRow(p[c:], b.width, keys, b.wide, w.qt[c:], b.width, n, cn, b.D, 0)
		w.adjust(b, p, nil, bias, j0, c, cn, n)
		for l := c; l < c+cn; l += kernel.Lanes {
			s := w.lane(b, l, n)
			w.mask(b, s, p[l:], j0, l, n, float32(math.Inf(-1)))
			s.p, s.sums = at(p, l), at(w.sums, l)
			w.set.softmax((*byte)(unsafe.Pointer(s)))
		}
		if w.odd[j0/laneKeys] && (b.until(b.first+c) < j0+n || b.since(b.first+min(c+cn, b.n)-1) > j0) {
			w.oddValues(b, values, j0, c, cn, n)
			continue
		}
		w.byCol(w.sums[c:], b.width, values, b.broad, p[c:], b.width, b.broad, cn, n)
	}
}

// adjust caps the scores of cn columns from c on and the n keys from j0 on, adding the
// bias. If slopes is not nil, it is set to the derivative of the cap.
func (w *lanes) adjust(b laneBlock, p, slopes []float32, bias kernel.Rows[float32], j0, c, cn, n int) {
	for r := 0; b.Cap != 0 && r < n; r++ {
		row := p[r*b.width+c:][:cn]
		vector.Scale(w.vec, row, 1/b.Cap)
		vector.Tanh(row, row)
		if slopes != nil {
			for i, t := range row {
				slopes[r*b.width+c+i] = 1 - float32(t*t)
			}
		}
		vector.Scale(w.vec, row, b.Cap)
	}
	for i := c; len(bias.X) > 0 && i < min(c+cn, b.n); i++ {
		for r, x := range bias.From(b.first + i).X[j0:][:n] {
			p[r*b.width+i] += x
		}
	}
}

// lane returns the laneScores of the 16 columns from l on, prepared for n keys.
func (w *lanes) lane(b laneBlock, l, n int) *laneScores {
	s := &w.scores[l/kernel.Lanes]
	s.keys, s.stride, s.rows = n, uintptr(4*b.width), b.V
	return s
}

// mask sets to fill the elements of x in columns that do not attend to their key. It
// masks the 16 columns from l on and the n keys from j0 on.
func (w *lanes) mask(b laneBlock, s *laneScores, x []float32, j0, l, n int, fill float32) {
	for i := range min(kernel.Lanes, b.n-l) {
		for r := range min(max(b.since(b.first+l+i)-j0, 0), n) {
			x[r*b.width+i] = fill
		}
	}
	if !b.Causal {
		return
	}
	base := b.At + b.first + l - j0 // the last key of the first column, counted from j0
	skip := max(base+1, 0)
	if skip >= n {
		return
	}
	s.base, s.fill, s.keys, s.p = int32(base-skip), fill, n-skip, at(x, skip*b.width)
	w.set.mask((*byte)(unsafe.Pointer(s)))
	s.keys = n
}

// oddValues adds weighted values to the sums of cn columns from c on, if some values are
// Inf or NaN. These must not reach queries that do not attend to them: the power is 0
// there, but 0 times NaN is NaN. So oddValues multiplies once for all columns that attend
// to the same odd values, with the other odd values replaced by 0, and keeps only these
// columns.
func (w *lanes) oddValues(b laneBlock, values []float32, j0, c, cn, n int) {
	size := b.broad * b.width
	spare := kernel.Room(&w.spare, 2*size+kernel.RoundUp(n, 8)*b.broad)
	before, after, v := spare[:size], spare[size:2*size], spare[2*size:]
	copy(before, w.sums)
	copy(after, w.sums)
	// odd returns the odd values that column i attends to, as a range of keys that begins
	// and ends with one.
	odd := func(i int) (lo, hi int) {
		lo, hi = max(b.since(b.first+i)-j0, 0), min(b.until(b.first+i)-j0, n)
		for lo < hi && !oddRow(values[lo*b.broad:][:b.V]) {
			lo++
		}
		for lo < hi && !oddRow(values[(hi-1)*b.broad:][:b.V]) {
			hi--
		}
		if lo >= hi {
			return 0, 0
		}
		return lo, hi
	}
	for i := c; i < min(c+cn, b.n); {
		lo, hi := odd(i)
		end := i + 1
		for ; end < min(c+cn, b.n); end++ {
			if l, h := odd(end); l != lo || h != hi {
				break
			}
		}
		copy(v, values[:n*b.broad])
		for j := range n {
			if row := v[j*b.broad:][:b.V]; (j < lo || j >= hi) && oddRow(row) {
				clear(row)
			}
		}
		copy(w.sums, before)
		w.byCol(w.sums[c:], b.width, v, b.broad, w.p[c:], b.width, b.broad, cn, n)
		for d := range b.broad {
			copy(after[d*b.width+i:d*b.width+end], w.sums[d*b.width+i:])
		}
		i = end
	}
	copy(w.sums, after)
}

func oddRow(x []float32) bool {
	for _, x := range x {
		if x-x != 0 {
			return true
		}
	}
	return false
}

// finish writes the block's results to out and lse. It changes x.
func (w *lanes) finish(b laneBlock, x sums[float32], out kernel.Rows[float32], lse []float32) {
	if b.few > 0 {
		x.finish(b.n, b.V, out, lse, b.first)
		return
	}
	for l := 0; l < b.width; l += kernel.Lanes {
		s := w.lane(b, l, 0)
		s.sums, s.total = at(x.values, l), [kernel.Lanes]float32{}
		for i := range min(kernel.Lanes, b.n-l) {
			s.total[i] = x.total[l+i]
			lse[b.first+l+i] = x.top[l+i] + float32(math.Log(float64(s.total[i])))
			if s.total[i] == 0 {
				s.total[i] = 1 // no keys: sums are 0
			}
		}
		w.set.divide((*byte)(unsafe.Pointer(s)))
	}
	w.rowsOf(out.From(b.first).X, out.Stride, x.values, b.width, b.n, b.V)
}
