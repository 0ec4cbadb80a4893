package attention

import (
	"math"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// Blocks of attention in vectors. A score's row is a key and its column a query, so
// that softmax runs down the lanes, without sums across them, and the powers
// are already where the next product reads them. Measured at D=64 with AVX-512 on a
// core with 48 KiB and 1 MiB of caches.
const (
	laneQueries = 96 // of which a product takes 48 at once
	laneKeys    = 96
	laneGroup   = 48
	groupVecs   = 3 // of a group, at most
)

// laneSet is the functions of one instruction set.
type laneSet struct {
	width, rows                                    int // lanes of a vector; rows of a product's tile
	byRow, byCol                                   [groupVecs]func(*byte)
	softmax, grad, mask, divide, scaleRows, addRow func(*byte)
}

// laneProduct is the argument of products. Strides are in bytes.
type laneProduct struct {
	tiles   int // of C, one below the other
	deep    int // products per element, at least 1
	a       unsafe.Pointer
	astride uintptr
	b       unsafe.Pointer
	bstride uintptr
	c       unsafe.Pointer
	cstride uintptr
	add     uintptr
}

// laneScores is 16 queries of a block, and the argument of the loops over their scores.
type laneScores struct {
	keys       int // rows of p and ds
	p          unsafe.Pointer
	stride     uintptr // of rows, in bytes
	ds         unsafe.Pointer
	sums       unsafe.Pointer
	rows       int // of sums
	base       int32
	fill       float32
	top, total [kernel.Lanes]float32 // the largest score, and the sum of p
	lse, delta [kernel.Lanes]float32
}

// laneRows is the argument of loops over rows. Strides are in bytes.
type laneRows struct {
	count, bytes int // of a row: a multiple of 64
	dst          unsafe.Pointer
	dstride      uintptr
	src          unsafe.Pointer
	sstride      uintptr
	scale        float32
	odd          uint32 // not 0 if one of src was Inf or NaN
}

// These do not compile if the offsets are others than in asm/attention.go.
const (
	_ = -(unsafe.Offsetof(laneProduct{}.add) ^ 64)
	_ = -(unsafe.Offsetof(laneProduct{}.c) ^ 48)
	_ = -(unsafe.Offsetof(laneScores{}.rows) ^ 40)
	_ = -(unsafe.Offsetof(laneScores{}.fill) ^ 52)
	_ = -(unsafe.Offsetof(laneScores{}.delta) ^ 248)
	_ = -(unsafe.Offsetof(laneRows{}.sstride) ^ 40)
	_ = -(unsafe.Offsetof(laneRows{}.odd) ^ 52)
)

// lanes is the memory of attention in vectors of float32. Rows of D elements are
// `wide` elements apart, whole vectors. Behind the last row and element there is
// anything: what it makes is there too, and not used.
type lanes struct {
	dry     *kernel.Dry // nil in a real run
	vec     kernel.Kind
	set     laneSet
	packs   *pack.Set
	product laneProduct
	rows    laneRows
	scores  [laneQueries / kernel.Lanes]laneScores

	ready  int       // keys whose rows are in k and v
	k, v   []float32 // [keys, wide]
	odd    []bool    // of blocks of keys: v has Inf or NaN
	qt, gt []float32 // [D, width]: queries, scaled, and cotangents of out, by column
	q, g   []float32 // [queries, wide]: the same by row
	p, ds  []float32 // [keys of a block, width]
	sums   []float32 // [wide, width]: of values or of keys
	dk, dv []float32 // [keys, wide]
	spare  []float32
}

func at(x []float32, i int) unsafe.Pointer { return unsafe.Pointer(&x[i]) }

// begin makes w ready for other keys and values.
func (w *lanes) begin(vec kernel.Kind) {
	w.ready = 0
	if w.vec != vec && vec != kernel.Portable {
		w.set, w.packs = laneSetOf(vec)
	}
	w.vec = vec
}

// laneBlock is a block of queries: from first on, n of them, in columns of a width.
type laneBlock struct {
	Attention[float32]
	first, n, width, wide int
}

func (w *lanes) blockAt(a Attention[float32], i0, to int) laneBlock {
	n := min(laneQueries, to-i0)
	return laneBlock{a, i0, n, kernel.RoundUp(n, kernel.Lanes), kernel.RoundUp(a.D, kernel.Lanes)}
}

// keys is the number of keys that the block attends to.
func (b laneBlock) keys() int {
	if b.Causal {
		return b.first + b.n
	}
	return b.S
}

// group is the columns that one product takes.
func (b laneBlock) group() int { return kernel.Evenly(b.width, laneGroup, kernel.Lanes) }

// seen is how many of the n keys from j0 on are seen from some of the columns before c.
func (b laneBlock) seen(j0, n, c int) int {
	if b.Causal {
		n = min(n, b.first+min(c, b.n)-j0)
	}
	return max(n, 0)
}

// forward is Attender.Forward.
func (w *lanes) forward(a Attention[float32], k, v, q, out Rows[float32], lse []float32, from, to int) {
	for i0 := from; i0 < to; i0 += laneQueries {
		b := w.blockAt(a, i0, to)
		w.pack(a, k, v, b.keys())
		qt, sums := kernel.Take(w.dry, &w.qt, a.D*b.width), kernel.Take(w.dry, &w.sums, b.wide*b.width)
		p := kernel.Take(w.dry, &w.p, laneKeys*b.width)
		if w.dry != nil {
			return // no block is wider
		}
		w.columns(qt, b.width, q.from(i0), b.n, a.D, q.Stride)
		w.scaleRows(qt, 0, qt, 0, 1, len(qt), a.Scale)
		clear(sums)
		for c := range b.width / kernel.Lanes {
			s := &w.scores[c]
			s.total = [kernel.Lanes]float32{}
			for i := range s.top {
				s.top[i] = float32(math.Inf(-1))
			}
		}
		for j0 := 0; j0 < b.keys(); j0 += laneKeys {
			w.softmax(b, p, j0)
		}
		w.finish(b, out, lse)
	}
}

// softmax takes the keys from j0 on into the block's sums. p is memory for its scores.
func (w *lanes) softmax(b laneBlock, p []float32, j0 int) {
	jn := min(laneKeys, b.keys()-j0)
	group := b.group()
	for c := 0; c < b.width; c += group {
		cn := min(group, b.width-c)
		n := b.seen(j0, jn, c+cn)
		if n == 0 {
			continue
		}
		w.byRow(p[c:], b.width, w.k[j0*b.wide:], b.wide, w.qt[c:], b.width, n, cn, b.D, 0)
		for l := c; l < c+cn; l += kernel.Lanes {
			s := w.lane(b, l, n)
			w.mask(b, s, p[l:], j0, l, n, float32(math.Inf(-1)))
			s.p, s.sums = at(p, l), at(w.sums, l)
			w.set.softmax((*byte)(unsafe.Pointer(s)))
		}
		if b.Causal && j0+n > b.first+c+1 && w.odd[j0/laneKeys] {
			w.oddValues(b, j0, c, cn, n)
			continue
		}
		w.byCol(w.sums[c:], b.width, w.v[j0*b.wide:], b.wide, p[c:], b.width, b.wide, cn, n)
	}
}

// lane is the scores of the 16 columns from l on, with n keys.
func (w *lanes) lane(b laneBlock, l, n int) *laneScores {
	s := &w.scores[l/kernel.Lanes]
	s.keys, s.stride, s.rows = n, uintptr(4*b.width), b.D
	return s
}

// mask sets what the 16 columns from l on, of x and n keys from j0 on, do not attend to.
func (w *lanes) mask(b laneBlock, s *laneScores, x []float32, j0, l, n int, fill float32) {
	if !b.Causal {
		return
	}
	base := b.first + l - j0 // the first column's last key
	skip := max(base+1, 0)
	if skip >= n {
		return
	}
	s.base, s.fill, s.keys, s.p = int32(base-skip), fill, n-skip, at(x, skip*b.width)
	w.set.mask((*byte)(unsafe.Pointer(s)))
	s.keys = n
}

// oddValues adds values to sums of cn columns from c on where some values are
// Inf or NaN, which are to be kept from queries that do not attend to them,
// though their powers are 0 there: it multiplies again for each of them, with those
// behind replaced by 0.
func (w *lanes) oddValues(b laneBlock, j0, c, cn, n int) {
	size := b.wide * b.width
	spare := kernel.Room(&w.spare, 2*size+kernel.RoundUp(n, 8)*b.wide)
	before, after, v := spare[:size], spare[size:2*size], spare[2*size:]
	copy(before, w.sums)
	copy(after, w.sums)
	copy(v, w.v[j0*b.wide:][:n*b.wide])
	hi := c + cn // columns from here on are done
	for j := n - 1; j >= -1 && hi > c; j-- {
		lo := max(j0+j-b.first, c) // the first column that attends to key j
		if j < 0 {
			lo = c
		} else if lo >= hi || !oddRow(v[j*b.wide:][:b.D]) {
			continue
		}
		copy(w.sums, before)
		w.byCol(w.sums[c:], b.width, v, b.wide, w.p[c:], b.width, b.wide, cn, n)
		for d := range b.wide {
			copy(after[d*b.width+lo:d*b.width+hi], w.sums[d*b.width+lo:])
		}
		hi = lo
		if j >= 0 {
			clear(v[j*b.wide:][:b.wide])
		}
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

// finish writes the block's results.
func (w *lanes) finish(b laneBlock, out Rows[float32], lse []float32) {
	for l := 0; l < b.width; l += kernel.Lanes {
		s := w.lane(b, l, 0)
		s.sums = at(w.sums, l)
		w.set.divide((*byte)(unsafe.Pointer(s)))
		for i := range min(kernel.Lanes, b.n-l) {
			lse[b.first+l+i] = s.top[i] + float32(math.Log(float64(s.total[i])))
		}
	}
	w.rowsOf(out.from(b.first), out.Stride, w.sums, b.width, b.n, b.D)
}
