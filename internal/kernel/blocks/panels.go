package blocks

import (
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/quant"
)

// panelSet has the functions of products with panels: 32 rows of weights with unpacked
// and interleaved blocks, so that a lane of a vector belongs to one row of weights and no
// sum is added across lanes. A panel is made once for all rows of x.
type panelSet struct {
	size int // bytes of a unit of a panel: 256 elements, or a group
	// pack writes `rows` rows of weights, 16 or 8, to their part of a panel.
	rows int
	pack func(*byte)
	// products[r] multiplies a panel by r+1 rows of x. At most `tile` rows are multiplied
	// at a time, and at least half as many.
	tile     int
	products *[panelTile]func(*byte)
	// least is the smallest number of rows of x worth a panel; making one takes as long
	// as multiplying it by 3 to 10 rows.
	least int
	// tiles, if set, multiplies a panel by many rows of x in AMX's tiles, and products is
	// nil.
	tiles func(*byte)
}

const (
	panelRows = 32
	panelTile = 6
	panelLine = 4 * panelRows // the bytes of four weights of each row
	// panelPiece is the largest number of elements of its rows in a panel. It then takes
	// 160 to 180 KiB of the second-level cache, and up to 268 KiB for tiles.
	panelPiece = 4096
	panelBytes = panelPiece / quantSuper * tileBytes
	// panelGroups is the number of groups unpacked at a time, for types with groups.
	panelGroups = 8
)

// packArgs is the argument of functions in assembly writing n units of 16 or 8 rows of
// weights to their part of a panel. The generator knows the offsets of the fields.
type packArgs struct {
	n     int
	panel *byte
	tmp   *[4096]byte
	rows  [16]*byte
}

// panelArgs is the argument of functions in assembly multiplying n units of a panel by
// rows of x, and add that to y. They prefetch `lines` cache lines in each unit.
type panelArgs struct {
	n     int
	panel *byte
	x     [panelTile]*byte
	y     *[panelRows]float32
	fetch uintptr // advanced by the functions, past the end of its memory
	lines int
	half  *[panelTile * panelLine]byte
	at    [panelTile]uintptr // the functions' copies of x
}

// These lines compile only if the offsets match asm/quant_panel.go and
// asm/quant_pack.go.
const (
	_ = -(unsafe.Offsetof(packArgs{}.panel) ^ 8)
	_ = -(unsafe.Offsetof(packArgs{}.tmp) ^ 16)
	_ = -(unsafe.Offsetof(packArgs{}.rows) ^ 24)
	_ = -(unsafe.Offsetof(panelArgs{}.panel) ^ 8)
	_ = -(unsafe.Offsetof(panelArgs{}.x) ^ 16)
	_ = -(unsafe.Offsetof(panelArgs{}.y) ^ 64)
	_ = -(unsafe.Offsetof(panelArgs{}.fetch) ^ 72)
	_ = -(unsafe.Offsetof(panelArgs{}.lines) ^ 80)
	_ = -(unsafe.Offsetof(panelArgs{}.half) ^ 88)
	_ = -(unsafe.Offsetof(panelArgs{}.at) ^ 96)
)

// panelWork is the memory for a product of panels.
type panelWork struct {
	panel  [panelBytes]byte // first, for page alignment
	sums   [quantMost][panelRows]float32
	half   [panelTile * panelLine]byte
	tmp    [4096]byte
	groups [panelRows * panelGroups]quant.Group
	pack   packArgs
	args   panelArgs
	unpack unpackArgs

	tiles    tileArgs
	config   tileConfig
	tileSums [tileRows][panelRows]float32
	tileInts [4][32][panelRows]int32
}

// panelWorks keeps the memory of finished products for later ones.
var panelWorks = sync.Pool{New: func() any { return new(panelWork) }}

// panelProduct has a product's operands. k is a multiple of the elements of a unit, or d
// has groups.
type panelProduct struct {
	*panelSet
	set        *set
	d          graph.DType
	m, n, k    int
	x, w, next []byte
	y          []float32
	yrs, ycs   int
	xb, wb     int // bytes of a row
}

// panels returns the functions for m rows of x and n rows of k weights of type d, nil if
// another method is better.
func (s *set) panels(d graph.DType, m, n, k int) *panelSet {
	if s == nil || n < panelRows/2 || k == 0 || s.direct(d, m, k) {
		return nil
	}
	worth := func(f *panelSet) *panelSet {
		if f == nil || m < f.least {
			return nil
		}
		return f
	}
	if quant.HasGroups(d) {
		if f := s.groupTiles[groupIndex(d)]; f != nil && m >= tileLeast {
			return f
		}
		return worth(s.groupPanels[groupIndex(d)])
	}
	if isSuper(d) || k%quantGroup == 0 {
		if f := s.blockTiles[quantIndex(d)]; f != nil && m >= tileLeast {
			return f
		}
		return worth(s.blockPanels[quantIndex(d)])
	}
	return nil
}

func (p *panelProduct) multiply() {
	work := panelWorks.Get().(*panelWork)
	defer panelWorks.Put(work)
	parts, most := 1, quantMost // of the rows of x; each is multiplied by all panels
	if p.tiles != nil {
		most = tileRows
	}
	if p.k > panelPiece {
		parts = (p.m + most - 1) / most
	}
	for part := range parts {
		i0, i1 := p.m*part/parts, p.m*(part+1)/parts
		for j := 0; j < p.n; j += panelRows {
			for from := 0; from < p.k; from += panelPiece {
				to := min(from+panelPiece, p.k)
				units := p.packPanel(work, j, from, to)
				if p.tiles != nil {
					p.tiles32(work, i0, i1, j, from, units, to == p.k)
					continue
				}
				p.products32(work, i0, i1, j, from, units, to == p.k)
			}
		}
	}
}

// unit returns the elements of a unit, and its bytes in a row of x.
func (p *panelProduct) unit() (elements, bytes int) {
	if isSuper(p.d) {
		return quantSuper, quantSuperRow
	}
	return quantGroup, quantGroupRow
}

// packPanel makes a panel of the elements [from, to) of the rows of weights from j on,
// returning its number of units. If there are fewer than 32 rows, it repeats the last.
func (p *panelProduct) packPanel(work *panelWork, j, from, to int) int {
	elements, _ := p.unit()
	units := (to - from + elements - 1) / elements
	block, size := p.d.Block()
	row := func(l int) []byte {
		return p.w[min(j+l, p.n-1)*p.wb:][:p.wb][from/block*size : to/block*size]
	}
	if !quant.HasGroups(p.d) {
		p.packRows(work, 0, units, func(l int) *byte { return &row(l)[0] })
		return units
	}
	for at := 0; at < units; at += panelGroups {
		n := min(panelGroups, units-at)
		lo, hi := at*quantGroup, min((at+n)*quantGroup, to-from)
		for l := range min(panelRows, p.n-j) {
			p.set.unpackGroups(&work.unpack, work.groups[l*panelGroups:][:n], p.d, row(l)[lo/block*size:hi/block*size])
		}
		p.packRows(work, at, n, func(l int) *byte {
			return (*byte)(unsafe.Pointer(&work.groups[min(l, p.n-j-1)*panelGroups]))
		})
	}
	return units
}

// packRows writes n units of 32 rows to the panel, starting at unit `at`.
func (p *panelProduct) packRows(work *panelWork, at, n int, row func(l int) *byte) {
	a := &work.pack
	a.n, a.tmp = n, &work.tmp
	for from := 0; from < panelRows; from += p.rows {
		a.panel = &work.panel[at*p.size+4*from]
		for l := range a.rows[:p.rows] {
			a.rows[l] = row(from + l)
		}
		p.pack((*byte)(unsafe.Pointer(a)))
	}
	*a = packArgs{} // the pool keeps no weights
}

// products32 multiplies the panel by the rows i0 to i1-1 of x, from element `from` on,
// writing y if this was the last piece. It divides the rows into the fewest calls.
func (p *panelProduct) products32(work *panelWork, i0, i1, j, from, units int, last bool) {
	elements, bytes := p.unit()
	a := &work.args
	tiles := (i1 - i0 + p.tile - 1) / p.tile
	a.half = &work.half
	a.fetch, a.lines = p.fetch(j, tiles*units)
	for t := range tiles {
		lo, hi := i0+(i1-i0)*t/tiles, i0+(i1-i0)*(t+1)/tiles
		sums := work.sums[0:]
		if p.k > panelPiece { // the next piece adds to them
			sums = work.sums[lo-i0:]
		}
		if from == 0 {
			clear(sums[:hi-lo])
		}
		a.n, a.panel, a.y = units, &work.panel[0], &sums[0]
		for r := range hi - lo {
			a.x[r] = &p.x[(lo+r)*p.xb+from/elements*bytes]
		}
		p.products[hi-lo-1]((*byte)(unsafe.Pointer(a)))
		if last {
			p.write(sums, lo, hi, j)
		}
	}
	*a = panelArgs{}
}

// write writes the sums of the rows lo to hi-1 to y.
func (p *panelProduct) write(sums [][panelRows]float32, lo, hi, j int) {
	n := min(panelRows, p.n-j)
	for i := lo; i < hi; i++ {
		sum, y := sums[i-lo][:n], p.y[i*p.yrs+j*p.ycs:]
		if p.ycs == 1 {
			copy(y, sum)
			continue
		}
		for l, v := range sum {
			y[l*p.ycs] = v
		}
	}
}

// fetch returns the start, and the number of cache lines at a time, for prefetching the
// weights of the next panel while units are multiplied the given number of times.
func (p *panelProduct) fetch(j, times int) (from uintptr, lines int) {
	rest := p.next
	if at := (j + panelRows) * p.wb; at < len(p.w) {
		rest = p.w[at:]
	}
	bytes := min(len(rest), panelRows*p.wb)
	if bytes == 0 {
		return 0, 0
	}
	return uintptr(unsafe.Pointer(&rest[0])), (bytes + 64*times - 1) / (64 * times)
}
