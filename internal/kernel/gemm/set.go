package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// set holds the functions of one instruction set for one element type.
type set struct {
	lanes  int // the elements of a vector
	rows   int // the rows of the largest tile: 4 or 8
	panels int // the most panels of B, each as wide as the widest tile, in a block
	// near makes a block of B a quarter as large, so that the second-level cache holds it.
	near bool
	// direct is the largest number of rows of A, at most one block, for which blocked
	// reads B in place. Measured: with AVX-512 and its panel of 3 cache lines, that is
	// faster for all of a block, and twice as fast for 8 rows. With AVX2 and its panel of
	// 1½ lines, it is slower from 16 rows on if B's rows are 4096 bytes apart. NEON's
	// panel is ¾ of a line wide.
	direct int
	// tiles[i][j] sets C = 0 + A·B, or adds A·B to C if work.add is set, for a tile of
	// 1, 4 or 8 rows and j+1 vectors.
	tiles [3][tileVecs]func(*byte)
	// copying is the largest tile, in a version that also copies B. If it is nil, as with
	// NEON, panels of B are copied before tiles read them, and A is always copied,
	// because NEON's tiles read several rows of A in one vector.
	copying func(*byte)
	// streams[i] adds A·B, for 1, 2 or 4 rows of A, to the sums at work.c. All rows of
	// one vector of columns are consecutive there.
	streams [3]func(*byte)
	// dots sets the sums of a vector of columns with contiguous elements, at work.c; nil
	// if there is none.
	dots  func(*byte)
	packs *pack.Set
}

// tileVecs is the width of the widest tile in vectors. With 8 rows of 3 vectors the sums
// take 24 of AVX-512's 32 registers. 11 loads feed 24 fused multiply-adds, and the
// processor does as many of these as loads per cycle. With NEON the sums take as many
// registers, and 3 loads, of one or two vectors, are enough.
const tileVecs = 3

// work is the argument of the functions in assembly. Strides are in bytes. The
// generator knows the offsets of its fields.
type work struct {
	deep    int            // number of products summed per element, at least 1
	a       unsafe.Pointer // in streams, element i,p is at p*rows+i
	b       unsafe.Pointer
	bstride uintptr // row stride of B
	c       unsafe.Pointer
	cstride uintptr // row stride of C; not used by streams
	add     uintptr // 0 for C = 0 + A·B; not used by streams
	cols    uintptr // the bytes of a row of B, whole vectors; used only by streams
	// The row stride and the element stride of A. Streams do not use them.
	astride, astep uintptr
	// Destination of the copying tile for the rows of B, consecutive.
	copy unsafe.Pointer
	// Distance from a tile's reads of B to its prefetches.
	ahead uintptr
}

// These lines compile only if the offsets match asm/set.go.
const (
	_ = -(unsafe.Offsetof(work{}.a) ^ 8)
	_ = -(unsafe.Offsetof(work{}.b) ^ 16)
	_ = -(unsafe.Offsetof(work{}.bstride) ^ 24)
	_ = -(unsafe.Offsetof(work{}.c) ^ 32)
	_ = -(unsafe.Offsetof(work{}.cstride) ^ 40)
	_ = -(unsafe.Offsetof(work{}.add) ^ 48)
	_ = -(unsafe.Offsetof(work{}.cols) ^ 56)
	_ = -(unsafe.Offsetof(work{}.astride) ^ 64)
	_ = -(unsafe.Offsetof(work{}.astep) ^ 72)
	_ = -(unsafe.Offsetof(work{}.copy) ^ 80)
	_ = -(unsafe.Offsetof(work{}.ahead) ^ 88)
)

// of returns t in the form taken by the functions.
func (t *work) of() *byte { return (*byte)(unsafe.Pointer(t)) }

// tileOf returns the smallest tile that has at least `rows` rows, or the largest tile,
// for `vecs` vectors of columns. It also returns the tile's number of rows.
func (s *set) tileOf(rows, vecs int) (func(*byte), int) {
	switch {
	case rows == 1:
		return s.tiles[0][vecs-1], 1
	case rows <= 4 || s.rows == 4:
		return s.tiles[1][vecs-1], 4
	}
	return s.tiles[2][vecs-1], 8
}

// streamOf returns the smallest stream that has at least `rows` rows, and its number of
// rows. rows is at most streamRows.
func (s *set) streamOf(rows int) (func(*byte), int) {
	switch {
	case rows == 1:
		return s.streams[0], 1
	case rows == 2:
		return s.streams[1], 2
	}
	return s.streams[2], 4
}
