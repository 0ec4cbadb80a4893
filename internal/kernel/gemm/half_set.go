package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// halfSet is the functions that multiply bf16 with one kind of instruction. They
// take numbers in pairs, neighbours in the summed dimension, the first in the
// lower half of 32 bits.
type halfSet struct {
	name string // of the instruction
	step int    // k is a multiple of it, by zeros behind the end
	deep int    // products that are summed before the sum is added to C, a multiple of step
	rows int    // of a block of A, a multiple of those of the largest tile
	most int    // rows of the largest tile
	wide int    // columns of the largest tile, a multiple of pairLanes
	// tile returns the smallest tile that has so many rows, or the largest, for
	// so many vectors of columns, and its number of rows. It sets C = 0 + A·B, or
	// adds A·B to C if work.add is set.
	tile func(rows, vecs int) (func(*byte), int)
	// squares says that A is copied in squares of 16 rows by 32 columns and not
	// in pairs of columns, and that a tile does work.blocks blocks of rows.
	squares bool
	// streams adds A·B, for 1, 2 and 4 rows, to sums at work.c; see asm/half.go.
	// Without them few rows are multiplied as many are.
	streams [3]func(*byte)
	// Copies, none if this processor has no vectors.
	pairRows   []pack.Transposition // of as many rows as lanes, deep 1
	transposes []pack.Transposition
}

// pairLanes is how many sums, and pairs, a vector has.
const pairLanes = 16

// The sizes of blocks that results depend on; those of the others do not.
const (
	dotStep, dotDeep = 2, 512
	amxStep, amxDeep = 32, 512
)

// amxTileOf is halfSet.tile for tiles of 1 or 2 squares by 1 or 2 vectors.
func amxTileOf(tiles [2][2]func(*byte), rows, vecs int) (func(*byte), int) {
	if rows <= squareRows {
		return tiles[0][vecs-1], squareRows
	}
	return tiles[1][vecs-1], 2 * squareRows
}

// halfWork is the argument of the functions of a halfSet, and of streams that
// widen B. The generator knows the offsets of its fields, of which the first are
// those of a work. In functions of a halfSet, deep counts pairs, or squares where A
// has these, and rows of B are pairs of rows.
type halfWork struct {
	deep    int
	a, b    unsafe.Pointer
	bstride uintptr
	c       unsafe.Pointer
	cstride uintptr
	add     uintptr
	cols    uintptr
	blocks  int
	config  *tileConfig
}

// These do not compile if the offsets are others than in asm/set.go and
// asm/amx.go.
const (
	_ = -(unsafe.Offsetof(halfWork{}.a) ^ 8)
	_ = -(unsafe.Offsetof(halfWork{}.b) ^ 16)
	_ = -(unsafe.Offsetof(halfWork{}.bstride) ^ 24)
	_ = -(unsafe.Offsetof(halfWork{}.c) ^ 32)
	_ = -(unsafe.Offsetof(halfWork{}.cstride) ^ 40)
	_ = -(unsafe.Offsetof(halfWork{}.add) ^ 48)
	_ = -(unsafe.Offsetof(halfWork{}.cols) ^ 56)
	_ = -(unsafe.Offsetof(halfWork{}.blocks) ^ 64)
	_ = -(unsafe.Offsetof(halfWork{}.config) ^ 72)
)

func (t *halfWork) of() *byte { return (*byte)(unsafe.Pointer(t)) }

// tileConfig is how AMX divides its registers: eight tiles of 16 rows of 64
// bytes.
type tileConfig struct {
	palette, start uint8
	_              [14]uint8
	bytes          [16]uint16
	rows           [16]uint8
}

func newTileConfig() tileConfig {
	c := tileConfig{palette: 1}
	for i := range 8 {
		c.bytes[i], c.rows[i] = 64, 16
	}
	return c
}

// SelectedHalf returns the name of the engine that products of bf16 use with
// the selected kernels: "f32", which widens them for the products of float32,
// or the instruction that multiplies them, "vdpbf16ps" or "tdpbf16ps".
func SelectedHalf() string {
	k := selected()
	return k.half()
}

func (k kernels) half() string {
	if k.bf16 == nil {
		return "f32"
	}
	return k.bf16.name
}
