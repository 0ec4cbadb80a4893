package blocks

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/quant"
)

// Multiply sets y[i·yrs + j·ycs] to the product of row i of x and row j of w. x is m
// consecutive rows made by Round. w is n rows of `deep` weights of type d.
//
// Products with weights in blocks are computed with integers. A row of numbers x is
// rounded once to int8 blocks as long as the weights' blocks,
//
//	x[i] ≈ dx·q[i],  dx = max|x|/127,  q[i] the integer nearest to x[i]·(1/dx), ties to even,
//
// and then multiplied with all rows of weights. In each block, the sums of the products
// of q and the weights' integers are exact. A block adds to y
//
//	y = y + (d·dx)·s                 q8_0, q6_k, mxfp4, iq2_xxs
//	y = y + ((d·dx)·s - (m·dx)·t)    q4_k, q2_k
//	y = y + ((d·dx)·s + (m·dx)·t)    the other types, 32 elements at a time
//
// where d and m are the scales of a block of weights, s is the sum of q times the
// weights' integers times the scales inside the block, and t is the sum of q times the
// offsets inside the block. For the other types d, m and the weights' integers are the
// results of quant.Unpack, and t is the sum of q. s and t are rounded to f32 once. Every
// product, difference and sum in these lines is rounded to f32, and blocks are added in
// order. For iq2_xxs dx is an eighth of the above, and the scales inside the block are
// 2s+1. Blocks of x are as long as the weights' blocks, except that they have 32 elements
// for q3_k, q5_k, iq3_xxs and iq4_xs.
//
// This is the contract: all kernels have these bits. An element of y depends only on its
// row of x and its row of weights.
//
// A block of x with a NaN or an infinity has the scale NaN, making y NaN.
//
// Multiply does not start goroutines. To share work, split the rows of weights rather
// than the rows of x, because a call reads all of its weights once for every 64 rows of
// x, or unpacks them once.
//
// next is the memory that the caller will read after w, or nil if unknown. Its first
// cache lines are prefetched while the last rows of w are multiplied. Multiply does not
// use its contents.
func Multiply(d graph.DType, m, n, deep int, x, w, next []byte, y []float32, yrs, ycs int) {
	selected().multiply(d, m, n, deep, x, w, next, y, yrs, ycs)
}

// quantArgs is the argument of functions in assembly, which add the products of blocks to
// out. They multiply the four rows w with x[0], and for pairs then with x[1]; or w[0] with
// the four rows x. The generator knows the offsets of the fields.
type quantArgs struct {
	n    int // units: blocks of 256, or 4 blocks of 32; at least 1
	w, x [4]*byte
	out  [8]float32
	book *[256]uint64 // of iq2_xxs
	// Start of the memory to prefetch for a later call, as many bytes as the call's rows
	// of weights have. The rows of one call are too short for the processor's own
	// prefetching.
	fetch *byte
}

// These lines compile only if the offsets match asm/quant.go and neon/quant.go.
const (
	_ = -(unsafe.Offsetof(quantArgs{}.w) ^ 8)
	_ = -(unsafe.Offsetof(quantArgs{}.x) ^ 40)
	_ = -(unsafe.Offsetof(quantArgs{}.out) ^ 72)
	_ = -(unsafe.Offsetof(quantArgs{}.book) ^ 104)
	_ = -(unsafe.Offsetof(quantArgs{}.fetch) ^ 112)
)

// set holds the functions of one instruction set. quantIndex is the index of a type; a
// function missing in the instruction set is nil. A nil set stands for the portable
// kernels.
type set struct {
	// rows multiplies four rows of weights by one row of x, pairs multiplies four by two,
	// and columns one by four.
	rows, pairs, columns [quantTypes]func(*byte)
	// affine decodes numbers of 4 and of 8 bits, affineLanes at a time.
	affine      [2]func(*byte)
	affineLanes int
	// super rounds whole blocks of 256 elements, and group whole units of 4 blocks of 32.
	// Code in Go rounds the rest.
	super, group func(*byte)
	// groups is rows, and groupPairs pairs, for weights unpacked to groups.
	groups, groupPairs func(*byte)
	// directRows is rows, and directPairs pairs, for types with groups, without writing
	// the groups to memory.
	directRows, directPairs [groupTypes]func(*byte)
	// blockPanels and groupPanels multiply many rows of x. The functions of groupPanels
	// are for weights unpacked to groups.
	blockPanels [quantTypes]*panelSet
	groupPanels [groupTypes]*panelSet
	// blockTiles and groupTiles are blockPanels and groupPanels for numbers of rows of x
	// that are worth tiles.
	blockTiles [quantTypes]*panelSet
	groupTiles [groupTypes]*panelSet
	// blockStrips multiply 16 rows of weights with a few rows of x.
	blockStrips [quantTypes]*stripSet
	// unpack makes groups of blocks. groupIndex is the index of a type.
	unpack [groupTypes]func(*byte)
}

// selected returns the functions of the selected kind.
var selected = sync.OnceValue(func() *set {
	k, _ := kernel.Selected() // the error is reported when a program is run
	return setOf(k)
})

const quantTypes, groupTypes = 6, 9

// quantAhead is the prefetch distance for weights in bytes.
const quantAhead = 12 << 10

func quantIndex(d graph.DType) int {
	if !d.IsBlock() {
		panic(fmt.Sprintf("blocks: element type %s is not in blocks", d))
	}
	return int(d - graph.Q8_0)
}

// groupIndex is quantIndex for types that have groups.
func groupIndex(d graph.DType) int { return int(d - graph.Q4_0) }

// inFours reports whether m rows of x are multiplied by four rows of weights at a time.
// The alternative multiplies four rows of x by one row of weights, unpacked once for the
// four. For 4 and for 8 rows that is as fast. Otherwise it wastes the time of the missing
// rows of the last four: nearly half of the time for 5 rows.
func (s *set) inFours(t, m int) bool {
	switch {
	case s.columns[t] == nil:
		return true
	case s.pairs[t] == nil:
		return m < 3
	}
	return m < 8 && m != 4
}

// direct reports whether m rows of k numbers are multiplied by weights with groups in
// place. For more rows it pays to unpack them once.
func (s *set) direct(d graph.DType, m, k int) bool {
	block, _ := d.Block()
	if s == nil || !quant.HasGroups(d) || s.directRows[groupIndex(d)] == nil || k == 0 || k%max(quantGroup, block) != 0 {
		return false
	}
	return m == 1 || m <= directMost && s.directPairs[groupIndex(d)] != nil
}

// directMost is the largest number of rows of x multiplied by weights that are not
// unpacked to memory, if there is a function for two rows.
const directMost = 4

// quantMost is the number of rows of x multiplied by all rows of weights before the next
// rows of x. Rows of 2048 elements then take 160 KiB of the second-level cache.
const quantMost = 64

func (s *set) multiply(d graph.DType, m, n, k int, x, w, next []byte, y []float32, yrs, ycs int) {
	if m <= 0 || n <= 0 {
		return
	}
	block, size := d.Block()
	xb, wb := RowBytes(d, k), k/block*size
	// Assembly does not check bounds.
	x, w = x[:m*xb], w[:n*wb]
	_ = y[(m-1)*yrs+(n-1)*ycs]
	if f := s.strips(d, m, n, k); f != nil {
		p := &quantProduct{d: d, n: n, y: y, yrs: yrs, ycs: ycs, x: x, w: w, next: next, xb: xb, wb: wb}
		elements := quantGroup
		if block == quantSuper {
			elements = quantSuper
		}
		if j := p.strips(m, k/elements, f); j < n {
			s.multiply(d, m, n-j, k, x, w[j*wb:], next, y[j*ycs:], yrs, ycs)
		}
		return
	}
	if f := s.panels(d, m, n, k); f != nil {
		p := panelProduct{panelSet: f, set: s, d: d, m: m, n: n, k: k, x: x, w: w, next: next, y: y, yrs: yrs, ycs: ycs, xb: xb, wb: wb}
		p.multiply()
		return
	}
	if s.direct(d, m, k) {
		p := quantProducts.Get().(*quantProduct)
		defer p.done()
		*p = quantProduct{d: d, n: n, y: y, yrs: yrs, ycs: ycs, x: x, w: w, next: next, xb: xb, wb: wb}
		p.args.n = k / max(quantGroup, block)
		p.fours(0, m, s.directRows[groupIndex(d)], s.directPairs[groupIndex(d)])
		return
	}
	if quant.HasGroups(d) {
		g := groupProduct{set: s, m: m, n: n, k: k, x: x, y: y, xb: xb, yrs: yrs, ycs: ycs}
		g.multiply(func(a *unpackArgs, groups []quant.Group, j, from, to int) {
			s.unpackGroups(a, groups, d, w[j*wb+from/block*size:j*wb+to/block*size])
		})
		return
	}
	t := quantIndex(d)
	units, rest := k/quantSuper, 0 // rest is the blocks of 32 after the last group, for Go
	if block != quantSuper {
		units, rest = k/quantGroup, k%quantGroup/block
	}
	if s == nil || s.rows[t] == nil || units == 0 {
		for j := range n {
			for i := range m {
				y[i*yrs+j*ycs] = quantDot(d, 0, k/block, x[i*xb:], w[j*wb:])
			}
		}
		return
	}
	p := quantProducts.Get().(*quantProduct)
	defer p.done()
	*p = quantProduct{d: d, n: n, y: y, yrs: yrs, ycs: ycs, x: x, w: w, next: next, xb: xb, wb: wb, whole: units * quantGroup / block, rest: rest}
	p.args = quantArgs{n: units, book: quant.IQ2Grid()}
	for i := 0; i < m; i += quantMost {
		if to := min(i+quantMost, m); s.inFours(t, to-i) {
			p.fours(i, to, s.rows[t], s.pairs[t])
		} else {
			p.columns(i, to, s.columns[t])
		}
	}
}

// quantProduct has a product's operands, and the argument of the functions in assembly.
// These multiply the blocks before block `whole`; the `rest` blocks from there on are
// multiplied in Go.
type quantProduct struct {
	d           graph.DType
	n           int
	y           []float32
	yrs, ycs    int
	x, w, next  []byte
	xb, wb      int // bytes of a row
	whole, rest int
	args        quantArgs
}

// quantProducts keeps the memory of finished products for later ones. A token needs
// hundreds of them, and the argument of functions in assembly is not on the stack.
var quantProducts = sync.Pool{New: func() any { return new(quantProduct) }}

// done releases the memory, without pointers to weights.
func (p *quantProduct) done() {
	*p = quantProduct{}
	quantProducts.Put(p)
}

// fours multiplies the rows i0 to i1-1 of x by four rows of weights at a time, and two
// rows of x at once if there is a function for that.
func (p *quantProduct) fours(i0, i1 int, one, two func(*byte)) {
	a := &p.args
	for j := 0; j < p.n; j += 4 {
		if j+4 <= p.n {
			at := p.w[j*p.wb:][:4*p.wb]
			a.w = [4]*byte{&at[0], &at[p.wb], &at[2*p.wb], &at[3*p.wb]}
		} else {
			for l := range a.w { // repeat the last row if there are fewer than four
				a.w[l] = &p.w[min(j+l, p.n-1)*p.wb]
			}
		}
		a.fetch = p.fetch(j)
		if i1-i0 == 1 && p.rest == 0 && p.ycs == 1 && j+4 <= p.n { // the case of a token
			a.x[0], a.out = &p.x[i0*p.xb], [8]float32{}
			one((*byte)(unsafe.Pointer(a)))
			*(*[4]float32)(p.y[i0*p.yrs+j:]) = [4]float32(a.out[:4])
			continue
		}
		for i := i0; i < i1; {
			a.x[0] = &p.x[i*p.xb]
			a.out = [8]float32{}
			k := 1
			if i+1 < i1 && two != nil {
				a.x[1] = &p.x[(i+1)*p.xb]
				k = 2
				two((*byte)(unsafe.Pointer(a)))
			} else {
				one((*byte)(unsafe.Pointer(a)))
			}
			if p.rest == 0 && p.ycs == 1 && j+4 <= p.n {
				copy(p.y[i*p.yrs+j:][:4], a.out[:4])
				if k == 2 {
					copy(p.y[(i+1)*p.yrs+j:][:4], a.out[4:])
				}
			} else {
				for l := range min(4, p.n-j) {
					for r := range k {
						p.finish(i+r, j+l, a.out[4*r+l])
					}
				}
			}
			i += k
		}
	}
}

// columns multiplies the rows i0 to i1-1 of x, four at a time, by one row of weights.
func (p *quantProduct) columns(i0, i1 int, four func(*byte)) {
	a := &p.args
	for j := range p.n {
		a.w[0], a.fetch = &p.w[j*p.wb], p.fetch(j)
		for i := i0; i < i1; i += 4 {
			for l := range a.x { // repeat the last row if there are fewer than four
				a.x[l] = &p.x[min(i+l, i1-1)*p.xb]
			}
			a.out = [8]float32{}
			four((*byte)(unsafe.Pointer(a)))
			for l := range min(4, i1-i) {
				p.finish(i+l, j, a.out[l])
			}
		}
	}
}

// fetch returns the start of the memory to prefetch while row j of the weights, and rows
// with it, are multiplied.
func (p *quantProduct) fetch(j int) *byte {
	at := j*p.wb + quantAhead
	if at < len(p.w) {
		return &p.w[at]
	}
	if at -= len(p.w); at < len(p.next) {
		return &p.next[at]
	}
	return &p.w[len(p.w)-1]
}

// finish adds the products of the last `rest` blocks to sum, writing it to y.
func (p *quantProduct) finish(i, j int, sum float32) {
	if p.rest > 0 {
		sum = quantRest(p.d, sum, p.whole, p.whole+p.rest, p.x[i*p.xb:], p.w[j*p.wb:])
	}
	p.y[i*p.yrs+j*p.ycs] = sum
}
