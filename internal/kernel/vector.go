package kernel

import "unsafe"

// vectors is the instruction set of the loops over float32.
type vectors uint8

const (
	scalar vectors = iota // plain Go, with float64 inside
	avx2
	avx512
	neon
)

// vectors returns the loops that go with these products.
func (k kernels) vectors() vectors {
	switch {
	case k.f32 == nil:
		return scalar
	case k.f32.lanes == vectorLanes:
		return avx512
	case k.f32.lanes == 4:
		return neon
	}
	return avx2
}

// vectorsOf returns the loops for elements of T: float64 has the scalar ones.
func vectorsOf[T Float]() vectors {
	if unsafe.Sizeof(T(0)) != 4 {
		return scalar
	}
	k, _ := selection()
	return k.vectors()
}

// loop is one of the loops in assembly. Its arguments are those of the formula
// beside the function of this name in asm/vector.go. An instruction set may lack
// some: whoever runs one asks has, and has a scalar loop for the other case.
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
	// Of attention in blocks, which is in lanes with avx2 and avx512.
	loopScaleMax
	loopAttentionGrad
)

// vectorLanes is how many elements a loop takes at once, with any instruction
// set, and how many partial sums it keeps.
const vectorLanes = 16

// vectorArgs is the argument of the loops. The generator knows the offsets of
// its fields.
type vectorArgs struct {
	n    int // a positive multiple of vectorLanes
	out  [3]*float32
	in   [4]*float32
	wide [10]float64
	max  [vectorLanes]float32
	sum  [vectorLanes]float64
	// Of all lanes, after a loop that makes it.
	total   float64
	largest float32
	c       [3]float32
}

// These do not compile if the offsets are others than in asm/vector.go
// and neon/vector.go.
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

// each runs a loop over slices of one length. The last elements, fewer than a
// vector, are copied to where a whole one can be read, with pad behind them, and
// so take the same instructions as the others: an element of a result depends on
// its own arguments only. A slice may be both result and argument.
func (v vectors) each(l loop, t *vectorArgs, pad float32, out [3][]float32, in [4][]float32) {
	n := len(in[0])
	whole := n &^ (vectorLanes - 1)
	if whole > 0 {
		for i, x := range out {
			t.out[i] = unsafe.SliceData(x)
		}
		for i, x := range in {
			t.in[i] = unsafe.SliceData(x)
		}
		t.n = whole
		v.run(l, t)
	}
	if whole == n {
		return
	}
	// The copies stay on the stack if they are pointed to from there only, and
	// not from an argument.
	a := *t
	var y [3][vectorLanes]float32
	var x [4][vectorLanes]float32
	for i, from := range in {
		if from == nil {
			continue
		}
		for j := copy(x[i][:], from[whole:n]); j < vectorLanes; j++ {
			x[i][j] = pad
		}
		a.in[i] = &x[i][0]
	}
	for i := range out {
		a.out[i] = &y[i][0]
	}
	a.n = vectorLanes
	v.run(l, &a)
	t.total, t.largest = a.total, a.largest
	for i, to := range out {
		if to != nil {
			copy(to[whole:n], y[i][:])
		}
	}
}

// f32 and f64 give a slice the type that its elements have underneath.
func f32[T Float](x []T) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

func f64[T Float](x []T) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}
