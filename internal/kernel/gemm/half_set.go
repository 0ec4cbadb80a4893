package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// halfSet holds the functions multiplying bf16 with one kind of instruction. They take
// numbers in pairs, which are neighbours in the summed dimension, the first in the lower
// half of 32 bits.
type halfSet struct {
	name string // of the instruction
	step int    // copies are filled with zeros so that k is a multiple of step
	deep int    // number of products summed before the sum is added to C, a multiple of step
	rows int    // the rows of a block of A, a multiple of most; 0 if blocks take squaresBytes
	copy int    // depth of a copy of B, a multiple of deep
	most int    // the rows of the largest tile
	wide int    // the columns of the largest tile, a multiple of pairLanes
	// tile returns the smallest tile that has at least `rows` rows, or the largest tile,
	// for `vecs` vectors of columns. It also returns the tile's number of rows. A tile
	// sets C = 0 + A·B, or adds A·B to C if work.add is set.
	tile func(rows, vecs int) (func(*byte), int)
	// round is the largest tile, which rounds its sums to C of bf16. It is nil if there
	// is none. It processes work.blocks blocks of rows, and stores their sums at
	// work.edge in between.
	round func(*byte)
	// squares: tiles read A as squares of 16 rows by 32 columns, in place or from copies,
	// and not as pairs of columns, and a tile processes work.blocks blocks of rows.
	squares bool
	// streams, for 1, 2 and 4 rows, add A·B to sums at work.c; see asm/half.go, and
	// asm/amx_stream.go if A is copied in squares. They are for at most `few` rows.
	// Without them few rows are multiplied like many.
	streams [3]func(*byte)
	few     int
	strips  *stripSet // nil if there are none
	// These copy A and B. They are nil if this processor has no vectors.
	pairRows   []pack.Transposition // from rows that are contiguous along lanes; Deep is 1
	transposes []pack.Transposition
}

// pairLanes is the number of sums, and of pairs, in a vector.
const pairLanes = 16

// Results depend on these sizes of blocks, and on no others.
const (
	dotStep, dotDeep = 2, 512
	amxStep, amxDeep = 32, 2048 // any multiple of 32 has the same bits
)

// amxTileOf is halfSet.tile for tiles of 1 or 2 squares by 1 or 2 vectors.
func amxTileOf(tiles [2][2]func(*byte), rows, vecs int) (func(*byte), int) {
	if rows <= squareRows {
		return tiles[0][vecs-1], squareRows
	}
	return tiles[1][vecs-1], 2 * squareRows
}

// halfWork is the argument of the functions of a halfSet, and of streams that widen B.
// The generator knows the offsets of its fields; it begins with the fields of type work.
// In functions of a halfSet, deep counts pairs, or squares if A is copied in squares, and
// a row of B is a row of pairs.
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
	edge    unsafe.Pointer
	// In bytes: the row stride of A, the stride between squares in k, and the stride to
	// the square below.
	rowStride, squareStep, sixteen uintptr
	// Start of the memory to prefetch by strips for a later call, as much as they read.
	fetch unsafe.Pointer
}

// These lines compile only if the offsets match asm/set.go and asm/amx.go.
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
	_ = -(unsafe.Offsetof(halfWork{}.edge) ^ 80)
	_ = -(unsafe.Offsetof(halfWork{}.rowStride) ^ 88)
	_ = -(unsafe.Offsetof(halfWork{}.squareStep) ^ 96)
	_ = -(unsafe.Offsetof(halfWork{}.sixteen) ^ 104)
	_ = -(unsafe.Offsetof(halfWork{}.fetch) ^ 112)
)

func (t *halfWork) of() *byte { return (*byte)(unsafe.Pointer(t)) }

// tileConfig divides AMX's registers into eight tiles of 16 rows of 64 bytes.
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

// SelectedHalf returns the name of the engine for products of bf16 with the selected
// kernels. It is "f32" if they are widened and multiplied as float32, or else their
// multiplying instruction, "vdpbf16ps" or "tdpbf16ps".
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
