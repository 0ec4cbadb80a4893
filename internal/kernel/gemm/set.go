package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// set is the functions of one instruction set for one element type.
type set struct {
	lanes  int // elements of a vector
	rows   int // rows of the largest tile: 4 or 8
	panels int // of B, each as wide as the widest tile, that a block has at most
	// Up to this many rows of A, and at most one block of them, blocked reads B
	// where it lies. Measured: with AVX-512, whose panel is 3 cache lines wide, it
	// is faster throughout a block, by 2 for 8 rows; with AVX2, of 1½ lines, it is
	// slower from 16 rows on if B's rows are 4096 bytes apart. NEON's panel has ¾ of
	// a line.
	direct int
	// tiles sets C = 0 + A·B, or adds A·B to C if work.add is set, for a tile of
	// tileRows[i] rows by j+1 vectors.
	tiles [3][tileVecs]func(*byte)
	// copying is the largest tile, which copies B on the way. Where it is nil tiles
	// read copies only, A's too: NEON's take several rows of A in one vector.
	copying func(*byte)
	// streams adds A·B, for streamOf[i] rows, to sums at work.c of which the rows
	// of one vector of columns lie together.
	streams [3]func(*byte)
	packs   *pack.Set
}

// tileVecs is how many vectors wide the widest tile is. With 8 rows of 3 vectors
// the sums take 24 of AVX-512's 32 registers, and 11 loads feed 24 fused
// multiply-adds, of which the processor does as many as loads in a cycle. With NEON
// they take as many, and 3 loads do, of one or two vectors.
const tileVecs = 3

// work is the argument of the functions in assembly. Strides are in bytes. The
// generator knows the offsets of its fields.
type work struct {
	deep    int            // products per element, at least 1
	a       unsafe.Pointer // in streams with element i,p at p*rows+i
	b       unsafe.Pointer
	bstride uintptr // from a row of B to the next
	c       unsafe.Pointer
	cstride uintptr // from a row of C to the next; not in streams
	add     uintptr // 0 for C = 0 + A·B; not in streams
	cols    uintptr // bytes of a row of B, whole vectors; only in streams
	// Not in streams: from a row of A to the next, and from an element of a row to
	// the next.
	astride, astep uintptr
	// Where a copying tile writes rows of B, side by side.
	copy unsafe.Pointer
	// From what a tile reads of B to what it fetches for later.
	ahead uintptr
}

// These do not compile if the offsets are others than in asm/set.go.
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

// of is the argument as the functions take it.
func (t *work) of() *byte { return (*byte)(unsafe.Pointer(t)) }

// tileOf returns the smallest tile that has so many rows, or the largest, and
// its number of rows.
func (s *set) tileOf(rows, vecs int) (func(*byte), int) {
	switch {
	case rows == 1:
		return s.tiles[0][vecs-1], 1
	case rows <= 4 || s.rows == 4:
		return s.tiles[1][vecs-1], 4
	}
	return s.tiles[2][vecs-1], 8
}

// streamOf is tileOf for streams, of at most streamRows rows.
func (s *set) streamOf(rows int) (func(*byte), int) {
	switch {
	case rows == 1:
		return s.streams[0], 1
	case rows == 2:
		return s.streams[1], 2
	}
	return s.streams[2], 4
}
