package blocks

import (
	"unsafe"
)

const (
	// tileLeast is the smallest number of rows of x worth a panel for tiles, which takes
	// longer to make than one for vectors: 16 rows take equally long either way.
	tileLeast = 24
	// tileMost is the number of rows of x multiplied by a unit of a panel before the next
	// unit: four tiles. A unit of the panel, these rows' sums and the sums of a pair of
	// tiles then stay in a first-level cache of 48 KiB.
	tileMost = 64
	// tileRows is the number of rows of x multiplied by a panel of a piece of the rows of
	// weights.
	tileRows = 256
	// tileBytes is the most bytes of a panel's lines belonging to 256 elements.
	tileBytes = (2*quantSuper/4 + 6) * panelLine
)

// tileArgs is the argument of functions in assembly multiplying n units of a panel by
// pairs·2 tiles of rows of x, and add that to y. They change it.
type tileArgs struct {
	n      int
	panel  *byte
	unit   int // bytes of a unit of the panel
	x      [tileMost / 16]*byte
	stride int // row stride of x in bytes
	y      *[panelRows]float32
	rows   int // of a tile
	pairs  int
	config *tileConfig
	sums   *[4][32][panelRows]int32
	fetch  uintptr
	lines  int
}

// tileConfig is the operand of LDTILECFG: the bytes of a row and the number of rows of
// eight tiles.
type tileConfig struct {
	palette, start uint8
	_              [14]byte
	bytes          [16]uint16
	rows           [16]uint8
}

// These lines compile only if the offsets match asm/quant_tile.go.
const (
	_ = -(unsafe.Offsetof(tileArgs{}.panel) ^ 8)
	_ = -(unsafe.Offsetof(tileArgs{}.unit) ^ 16)
	_ = -(unsafe.Offsetof(tileArgs{}.x) ^ 24)
	_ = -(unsafe.Offsetof(tileArgs{}.stride) ^ 56)
	_ = -(unsafe.Offsetof(tileArgs{}.y) ^ 64)
	_ = -(unsafe.Offsetof(tileArgs{}.rows) ^ 72)
	_ = -(unsafe.Offsetof(tileArgs{}.pairs) ^ 80)
	_ = -(unsafe.Offsetof(tileArgs{}.config) ^ 88)
	_ = -(unsafe.Offsetof(tileArgs{}.sums) ^ 96)
	_ = -(unsafe.Offsetof(tileArgs{}.fetch) ^ 104)
	_ = -(unsafe.Offsetof(tileArgs{}.lines) ^ 112)
	_ = -(unsafe.Offsetof(tileConfig{}.bytes) ^ 16)
	_ = -(unsafe.Offsetof(tileConfig{}.rows) ^ 48)
)

// configure sets c for tiles of some rows of x with k elements each: four tiles of sums,
// two of rows of x and two of weights.
func (c *tileConfig) configure(rows, k int) {
	*c = tileConfig{palette: 1}
	for i := range 8 {
		c.bytes[i], c.rows[i] = 64, uint8(rows)
		switch i {
		case 4, 5:
			c.bytes[i] = uint16(k)
		case 6, 7:
			c.rows[i] = uint8(k / 4)
		}
	}
}

// tiles32 is products32 with tiles.
func (p *panelProduct) tiles32(work *panelWork, i0, i1, j, from, units int, last bool) {
	elements, bytes := p.unit()
	parts := (i1 - i0 + tileMost - 1) / tileMost
	fetch, lines := p.fetch(j, (i1-i0+31)/32*units)
	a := &work.tiles
	for part := range parts {
		lo, hi := i0+(i1-i0)*part/parts, i0+(i1-i0)*(part+1)/parts
		pairs := (hi - lo + 31) / 32
		count := 2 * pairs
		rows := (hi - lo + count - 1) / count
		at := 0
		if p.k > panelPiece {
			at = part * tileMost
		}
		sums := work.tileSums[at:][:count*rows]
		if from == 0 {
			clear(sums)
		}
		depth := 64 // elements of each row in a tile
		if elements == quantGroup {
			depth = 32
		}
		work.config.configure(rows, depth)
		*a = tileArgs{n: units, panel: &work.panel[0], unit: p.size, stride: p.xb, y: &sums[0], rows: rows, pairs: pairs,
			config: &work.config, sums: &work.tileInts, fetch: fetch, lines: lines}
		for t := range count {
			a.x[t] = &p.x[tileRow(lo, hi, t, count, rows)*p.xb+from/elements*bytes]
		}
		p.tiles((*byte)(unsafe.Pointer(a)))
		fetch = a.fetch
		if last {
			for t := range count {
				i := tileRow(lo, hi, t, count, rows)
				p.write(sums[t*rows:], i, i+rows, j)
			}
		}
	}
	*a = tileArgs{}
}

// tileRow returns the first row of tile t of the rows lo to hi-1. If the tiles have more
// rows than there are, some rows are in two tiles, and get the same bits from both. count
// is at least 2, because tiles are made in pairs.
func tileRow(lo, hi, t, count, rows int) int { return lo + (hi-lo-rows)*t/(count-1) }
