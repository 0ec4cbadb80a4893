package vector

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// loop is one of the loops in assembly. The function of the same name in asm/vector.go
// has its formula, with the arguments' names. An instruction set may lack a loop. So a
// caller asks has first, and has a loop in Go otherwise.
type loop uint8

const (
	loopExp loop = iota
	loopTanh
	loopLogistic
	loopSiLU
	loopSiLUGrad
	loopSwiGLU
	loopSwiGLUGrad
	loopMax
	loopExpSum
	loopExpTotal
	loopScaled
	loopAdamW
	loopAddScaled
	// Loops for attention in blocks. avx2 and avx512 lack them: their attention works in
	// lanes.
	loopScaleMax
	loopAttentionGrad
)

// vectorArgs is the argument of the loops. The generator knows the offsets of
// its fields.
type vectorArgs struct {
	n    int // a positive multiple of kernel.Lanes
	out  [3]*float32
	in   [4]*float32
	wide [10]float64
	max  [kernel.Lanes]float32
	sum  [kernel.Lanes]float64
	// The sum and the largest of all lanes, after a loop computing one of them.
	total   float64
	largest float32
	c       [3]float32
}

// These lines compile only if the offsets match asm/vector.go and
// neon/vector.go.
const (
	_ = -(unsafe.Offsetof(vectorArgs{}.out) ^ 8)
	_ = -(unsafe.Offsetof(vectorArgs{}.in) ^ 32)
	_ = -(unsafe.Offsetof(vectorArgs{}.wide) ^ 64)
	_ = -(unsafe.Offsetof(vectorArgs{}.max) ^ 144)
	_ = -(unsafe.Offsetof(vectorArgs{}.sum) ^ 208)
	_ = -(unsafe.Offsetof(vectorArgs{}.total) ^ 336)
	_ = -(unsafe.Offsetof(vectorArgs{}.largest) ^ 344)
	_ = -(unsafe.Offsetof(vectorArgs{}.c) ^ 348)
)

// each runs a loop over slices, all of the same length. The last elements, if they do not
// fill a vector, are copied to one and padded with pad. So they are computed by the same
// instructions, and an element of a result depends on its own arguments only. A slice may
// be both a result and an argument.
func each(v kernel.Kind, l loop, t *vectorArgs, pad float32, out [3][]float32, in [4][]float32) {
	n := len(in[0])
	whole := n &^ (kernel.Lanes - 1)
	// A copy points to the slices. A pointer stored in t, an argument, would count as
	// escaping: arrays of callers would move to the heap.
	a := *t
	if whole > 0 {
		for i, x := range out {
			a.out[i] = unsafe.SliceData(x)
		}
		for i, x := range in {
			a.in[i] = unsafe.SliceData(x)
		}
		a.n = whole
		run(v, l, &a)
	}
	if whole < n {
		var y [3][kernel.Lanes]float32
		var x [4][kernel.Lanes]float32
		for i, from := range in {
			if from == nil {
				continue
			}
			for j := copy(x[i][:], from[whole:n]); j < kernel.Lanes; j++ {
				x[i][j] = pad
			}
			a.in[i] = &x[i][0]
		}
		for i := range out {
			a.out[i] = &y[i][0]
		}
		a.n = kernel.Lanes
		run(v, l, &a)
		for i, to := range out {
			if to != nil {
				copy(to[whole:n], y[i][:])
			}
		}
	}
	t.total, t.largest = a.total, a.largest
}
