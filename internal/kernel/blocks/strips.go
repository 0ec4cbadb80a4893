package blocks

import (
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/quant"
)

const (
	stripRows = 16 // of weights
	stripMost = 8  // rows of x multiplied by a strip
)

// stripArgs is the argument of functions in assembly multiplying n units of a strip, 16
// consecutive rows of weights, by rows of x, and add that to sums. They prefetch the 16
// rows of weights at fetch for a later call. The generator knows the offsets of the
// fields.
type stripArgs struct {
	tmp   [3 * 64]byte
	sums  [stripMost][stripRows]float32
	n     int
	w     *byte
	step  int // bytes of a row of weights
	x     *byte
	xstep int // bytes of a row of x
	fetch *byte

	hop   int // the stride for AVX-512
	parts int // of x, for AVX2, whose second one starts xhop bytes after the first
	xhop  int
	_     [7]int                            // counters of the loops
	lines [22 + stripMost][stripRows]uint32 // transposed weights and, for AVX2, spilled registers
}

// These lines compile only if the offsets match asm/quant_strip.go and asm/quant_narrow_strip.go.
const (
	_ = -(unsafe.Offsetof(stripArgs{}.sums) ^ 192)
	_ = -(unsafe.Offsetof(stripArgs{}.n) ^ 704)
	_ = -(unsafe.Offsetof(stripArgs{}.w) ^ 712)
	_ = -(unsafe.Offsetof(stripArgs{}.step) ^ 720)
	_ = -(unsafe.Offsetof(stripArgs{}.x) ^ 728)
	_ = -(unsafe.Offsetof(stripArgs{}.xstep) ^ 736)
	_ = -(unsafe.Offsetof(stripArgs{}.fetch) ^ 744)
	_ = -(unsafe.Offsetof(stripArgs{}.hop) ^ 752)
	_ = -(unsafe.Offsetof(stripArgs{}.parts) ^ 760)
	_ = -(unsafe.Offsetof(stripArgs{}.xhop) ^ 768)
	_ = -(unsafe.Offsetof(stripArgs{}.lines) ^ 832)
)

// stripSet has the functions of products in strips: products[r] multiplies a strip by r+1
// rows of x, at least two. If there is none for a number of rows, the one for half of them
// multiplies two parts. Up to `most` rows are multiplied in strips; for more it pays to
// make panels, or tiles.
type stripSet struct {
	most     int
	products [stripMost]func(*byte)
}

// stripWorks keeps the memory of finished products for later ones.
var stripWorks = sync.Pool{New: func() any { return new(stripArgs) }}

// strips returns the functions for m rows of x and n rows of k weights of type d, nil if
// another method is better.
func (s *set) strips(d graph.DType, m, n, k int) *[stripMost]func(*byte) {
	if s == nil || quant.HasGroups(d) || n < stripRows || k == 0 || k%quantGroup != 0 {
		return nil
	}
	f := s.blockStrips[quantIndex(d)]
	if f == nil || m < 2 || m > f.most {
		return nil
	}
	return &f.products
}

// strips multiplies all rows of x, up to stripMost at a time, by the whole strips of
// weights, returning the number of their rows.
func (p *quantProduct) strips(m, units int, products *[stripMost]func(*byte)) int {
	a := stripWorks.Get().(*stripArgs)
	defer stripWorks.Put(a)
	strip := stripRows * p.wb
	parts := (m + stripMost - 1) / stripMost
	j := 0
	for ; j+stripRows <= p.n; j += stripRows {
		next := (j + stripRows) * p.wb
		for part := range parts {
			lo, hi := m*part/parts, m*(part+1)/parts
			rows := hi - lo
			a.n, a.w, a.step, a.x, a.xstep = units, &p.w[j*p.wb], p.wb, &p.x[lo*p.xb], p.xb
			a.parts, a.xhop = 1, 0
			product, second := products[rows-1], 0 // rows only in the second part
			if product == nil {                    // both parts have the middle one of an odd number of rows
				second = rows / 2
				product = products[rows-second-1]
				a.parts, a.xhop = 2, second*p.xb
			}
			switch {
			case next+strip <= len(p.w):
				a.fetch = &p.w[next]
			case next == len(p.w) && strip <= len(p.next):
				a.fetch = &p.next[0]
			default:
				a.fetch = a.w
			}
			clear(a.sums[:])
			product((*byte)(unsafe.Pointer(a)))
			for i := range rows {
				line := i
				if i >= rows-second {
					line += rows % 2
				}
				sums, y := &a.sums[line], p.y[(lo+i)*p.yrs+j*p.ycs:]
				if p.ycs == 1 {
					copy(y[:stripRows], sums[:])
					continue
				}
				for l, v := range sums {
					y[l*p.ycs] = v
				}
			}
		}
	}
	a.w, a.x, a.fetch = nil, nil, nil // the pool keeps no weights
	return j
}
