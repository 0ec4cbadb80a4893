package attention

import (
	"math"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// These are the sizes of blocks of attention in lanes, where every lane of a vector is a
// query. Scores have a row for each key and a column for each query. So softmax runs down
// the lanes, without sums across them, and the powers are already where the next product
// reads them. Measured at D=64 with AVX-512 on a core with caches of 48 KiB and 1 MiB.
const (
	laneQueries = 96 // a product takes laneGroup of them at once
	laneKeys    = 96
	laneGroup   = 48
	groupVecs   = 3 // the most vectors that a product takes at once
)

// laneSet holds the functions of one instruction set.
type laneSet struct {
	width, rows                                    int // lanes of a vector; rows of a product's tile
	byRow, byCol                                   [groupVecs]func(*byte)
	softmax, grad, mask, divide, scaleRows, addRow func(*byte)
}

// laneProduct is the argument of products. Strides are in bytes.
type laneProduct struct {
	tiles   int // how many tiles of c are computed, one below the other
	deep    int // how many products an element is the sum of, at least 1
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

// These lines compile only if the offsets are those in asm/attention.go.
const (
	_ = -(unsafe.Offsetof(laneProduct{}.add) ^ 64)
	_ = -(unsafe.Offsetof(laneProduct{}.c) ^ 48)
	_ = -(unsafe.Offsetof(laneScores{}.rows) ^ 40)
	_ = -(unsafe.Offsetof(laneScores{}.fill) ^ 52)
	_ = -(unsafe.Offsetof(laneScores{}.delta) ^ 248)
	_ = -(unsafe.Offsetof(laneRows{}.sstride) ^ 40)
	_ = -(unsafe.Offsetof(laneRows{}.odd) ^ 52)
)

// lanes is the memory of attention in lanes, of float32. A row of D elements takes `wide`
// elements, which fill whole vectors. Elements behind the last of a row, and rows behind
// the last, have any values; what is computed from them is not used.
type lanes struct {
	dry     *kernel.Dry // nil in a real run
	vec     kernel.Kind
	set     laneSet
	packs   *pack.Set
	product laneProduct
	rows    laneRows
	scores  [laneQueries / kernel.Lanes]laneScores

	ready  int       // how many keys and values are in k and v
	k, v   []float32 // [keys, wide]
	odd    []bool    // for each block of keys, whether its values have an Inf or a NaN
	qt, gt []float32 // [D, width]: scaled queries, and cotangents of out, as columns
	q, g   []float32 // [queries, wide]: the same as rows
	p, ds  []float32 // [keys of a block, width]
	sums   []float32 // [wide, width]: weighted sums of values, or of keys in backward
	dk, dv []float32 // [keys, wide]
	spare  []float32
}

func at(x []float32, i int) unsafe.Pointer { return unsafe.Pointer(&x[i]) }

// begin makes w ready for other keys and values, and for the kernels vec.
func (w *lanes) begin(vec kernel.Kind) {
	w.ready = 0
	if w.vec != vec && vec != kernel.Portable {
		w.set, w.packs = laneSetOf(vec)
	}
	w.vec = vec
}

// laneBlock is a block of n queries from first on. Its columns are padded to width, a
// multiple of kernel.Lanes, and rows of D elements to wide.
type laneBlock struct {
	Attention[float32]
	first, n, width, wide int
}

func (w *lanes) blockAt(a Attention[float32], i0, to int) laneBlock {
	n := min(laneQueries, to-i0)
	return laneBlock{a, i0, n, kernel.RoundUp(n, kernel.Lanes), kernel.RoundUp(a.D, kernel.Lanes)}
}

// keys returns the number of keys that the block attends to.
func (b laneBlock) keys() int {
	if b.Causal {
		return b.first + b.n
	}
	return b.S
}

// group returns the number of columns that one product takes.
func (b laneBlock) group() int { return kernel.Evenly(b.width, laneGroup, kernel.Lanes) }

// seen returns how many of the n keys from j0 on some column before c attends to.
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

// softmax adds what the block of keys from j0 on contributes to the block's sums.
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

// lane returns the laneScores of the 16 columns from l on, made ready for n keys.
func (w *lanes) lane(b laneBlock, l, n int) *laneScores {
	s := &w.scores[l/kernel.Lanes]
	s.keys, s.stride, s.rows = n, uintptr(4*b.width), b.D
	return s
}

// mask sets to fill those elements of x whose column does not attend to their key. It masks
// the 16 columns from l on and the n keys from j0 on.
func (w *lanes) mask(b laneBlock, s *laneScores, x []float32, j0, l, n int, fill float32) {
	if !b.Causal {
		return
	}
	base := b.first + l - j0 // the last key of the first column, counted from j0
	skip := max(base+1, 0)
	if skip >= n {
		return
	}
	s.base, s.fill, s.keys, s.p = int32(base-skip), fill, n-skip, at(x, skip*b.width)
	w.set.mask((*byte)(unsafe.Pointer(s)))
	s.keys = n
}

// oddValues adds weighted values to the sums of cn columns from c on, where some values are
// Inf or NaN. These must not reach queries that do not attend to them: the power is 0 there,
// but 0 times NaN is NaN. So oddValues multiplies once for each odd value, with the odd
// values behind it replaced by 0, and keeps the columns for which that is right.
func (w *lanes) oddValues(b laneBlock, j0, c, cn, n int) {
	size := b.wide * b.width
	spare := kernel.Room(&w.spare, 2*size+kernel.RoundUp(n, 8)*b.wide)
	before, after, v := spare[:size], spare[size:2*size], spare[2*size:]
	copy(before, w.sums)
	copy(after, w.sums)
	copy(v, w.v[j0*b.wide:][:n*b.wide])
	hi := c + cn // columns from here on are done
	for j := n - 1; j >= -1 && hi > c; j-- {
		lo := max(j0+j-b.first, c) // the first column that attends to key j0+j
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

// finish writes the block's results to out and lse.
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
