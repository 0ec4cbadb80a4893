package blocks

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/quant"
)

// RowBytes returns the size in bytes of a row of k numbers rounded for products with
// weights of type d. k is a multiple of d's block.
func RowBytes(d graph.DType, k int) int {
	if isSuper(d) {
		return k / quantSuper * quantSuperRow
	}
	return (k + quantGroup - 1) / quantGroup * quantGroupRow
}

// These constants are the layout of a rounded row, in bytes. A row consists of units,
// aligned to cache lines if the row is. A unit is either 256 elements with the sums of
// every 16 of them, or of every 32 for q4_k, and one scale; or it is a group of 4 blocks
// of 32 elements, each with a scale and with its sum times quantOffset.
const (
	quantSuper      = 256
	quantSuperRow   = 320
	quantSuperSums  = 256 // 16 int16; for q4_k 8 and then zeros
	quantSuperScale = 288

	quantGroup      = 4 * 32
	quantGroupRow   = 192
	quantGroupScale = 128 // 4 float32
	quantGroupSums  = 144 // 4 int32
)

// isSuper reports whether rows are rounded in units of 256 elements for products with
// weights of type d. For other types these units are groups.
func isSuper(d graph.DType) bool {
	n, _ := d.Block()
	return n == quantSuper && !quant.HasGroups(d)
}

// quantOrder returns the order of the 8 parts, of 32 elements each, of a unit of 256 in a
// rounded row. It is the order of these parts in vectors of 64 weights.
func quantOrder(d graph.DType) [8]int {
	switch d {
	case graph.Q4_K:
		return [8]int{0, 2, 1, 3, 4, 6, 5, 7}
	case graph.Q2_K:
		return [8]int{0, 4, 1, 5, 2, 6, 3, 7}
	}
	return [8]int{0, 1, 2, 3, 4, 5, 6, 7}
}

// quantOffset returns the number making a weight's integer unsigned when added to it,
// because vectors multiply unsigned integers by signed ones. It is 0 for types with rows
// rounded in units of 256.
func quantOffset(d graph.DType) int32 {
	switch d {
	case graph.Q8_0:
		return 128
	case graph.MXFP4:
		return 12
	}
	if quant.HasGroups(d) {
		return groupOffset
	}
	return 0
}

// Round rounds the consecutive rows of k elements in x, for Multiply with weights of type
// d. rows has RowBytes(d, k) bytes for each row.
func Round(d graph.DType, k int, rows []byte, x []float32) {
	selected().quantizeRows(d, k, rows, x)
}

func (s *set) quantizeRows(d graph.DType, k int, rows []byte, x []float32) {
	if k == 0 {
		return
	}
	unit, size := quantGroup, quantGroupRow
	super := isSuper(d)
	if super {
		unit, size = quantSuper, quantSuperRow
	}
	rows = rows[:len(x)/k*RowBytes(d, k)] // assembly does not check bounds
	if k%unit == 0 {
		k = len(x) // rows of whole units are rounded like one long row
	}
	var a *roundArgs
	var round func(*byte)
	order := quantOrder(d)
	if s != nil && k >= unit {
		a = &roundArgs{n: k / unit, factor: 1, offset: quantOffset(d)}
		if round = s.group; super {
			round = s.super
		}
		for at, j := range order {
			a.places[j] = uint32(32 * at)
		}
		switch d {
		case graph.IQ2_XXS:
			a.factor = quantIQ2
		case graph.Q4_K:
			a.pairs = 1
		}
	}
	for ; len(x) > 0; x, rows = x[k:], rows[(k+unit-1)/unit*size:] {
		done := 0
		if a != nil {
			a.x, a.row = &x[0], &rows[0]
			round((*byte)(unsafe.Pointer(a)))
			done = a.n
		}
		for ; done*unit < k; done++ {
			row, part := rows[done*size:][:size], x[done*unit:min(done*unit+unit, k)]
			if super {
				quantizeSuper(d, row, part, order)
			} else {
				quantizeGroup(d, row, part)
			}
		}
	}
}

// roundArgs is the argument of functions in assembly rounding n units of x. The generator
// knows the offsets of its fields.
type roundArgs struct {
	n      int
	x      *float32
	row    *byte
	factor float32 // of the scales, in blocks of 256
	offset int32   // of the sums, in blocks of 32
	// In blocks of 256: the place of every 32 elements in a unit of the row, and 1 if
	// sums of 16 elements are added in pairs.
	places [8]uint32
	pairs  uint32
}

// These lines compile only if the offsets match asm/quantize.go and neon/quant.go.
const (
	_ = -(unsafe.Offsetof(roundArgs{}.x) ^ 8)
	_ = -(unsafe.Offsetof(roundArgs{}.row) ^ 16)
	_ = -(unsafe.Offsetof(roundArgs{}.factor) ^ 24)
	_ = -(unsafe.Offsetof(roundArgs{}.offset) ^ 28)
	_ = -(unsafe.Offsetof(roundArgs{}.places) ^ 32)
	_ = -(unsafe.Offsetof(roundArgs{}.pairs) ^ 64)
)

// quantIQ2 is the common factor of all weights of iq2_xxs.
const quantIQ2 = 0.125

func quantizeSuper(d graph.DType, row []byte, x []float32, order [8]int) {
	scale, inverse := quantScale(x)
	if d == graph.IQ2_XXS {
		scale *= quantIQ2
	}
	var sums [16]int16
	for at, j := range order {
		for i, v := range x[32*j:][:32] {
			q := roundInt8(v, inverse)
			row[32*at+i] = byte(q)
			if d == graph.Q4_K {
				sums[j] += int16(q)
			} else {
				sums[2*j+i/16] += int16(q)
			}
		}
	}
	for i, s := range sums {
		binary.LittleEndian.PutUint16(row[quantSuperSums+2*i:], uint16(s))
	}
	putFloat(row[quantSuperScale:], scale)
}

// quantizeGroup rounds 1 to 4 blocks of 32 to a group. Missing blocks become zeros.
func quantizeGroup(d graph.DType, row []byte, x []float32) {
	clear(row)
	for b := 0; b < len(x); b += 32 {
		scale, inverse := quantScale(x[b:][:32])
		sum := int32(0)
		for i, v := range x[b:][:32] {
			q := roundInt8(v, inverse)
			row[b+i] = byte(q)
			sum += int32(q)
		}
		putFloat(row[quantGroupScale+b/8:], scale)
		binary.LittleEndian.PutUint32(row[quantGroupSums+b/8:], uint32(sum*quantOffset(d)))
	}
}

// quantScale returns a block's scale dx and its inverse. An inverse of 0 means that all
// elements become 0. This is the case for a block of zeros, or of numbers so small that
// the inverse would be infinite, both with scale 0; and for a block with a NaN or an
// infinity, with scale NaN.
func quantScale(x []float32) (scale, inverse float32) {
	top, bits := float32(0), uint32(0)
	for _, v := range x {
		b := math.Float32bits(v) &^ (1 << 31)
		bits = max(bits, b)
	}
	top = math.Float32frombits(bits) // the largest |x|, or NaN: bits have the order of |x|, NaN is largest
	if top-top != 0 {
		return float32(math.NaN()), 0
	}
	scale = top / 127
	if inverse = 1 / scale; inverse > math.MaxFloat32 {
		return 0, 0
	}
	return scale, inverse
}

// roundInt8 returns v·inverse rounded to the nearest integer, ties to even. |v·inverse| is
// at most 127, apart from rounding. Adding 1.5·2^23 leaves the integer in the last bits of
// the sum.
func roundInt8(v, inverse float32) int8 {
	if inverse == 0 {
		return 0 // v may be NaN or infinite
	}
	const shift = 3 << 22
	return int8(int32(math.Float32bits(float32(v*inverse)+shift)) - int32(math.Float32bits(shift)))
}

func putFloat(b []byte, x float32) { binary.LittleEndian.PutUint32(b, math.Float32bits(x)) }
func float(b []byte) float32       { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }
