// Package numbers has helpers for tests of kernels: numbers that expose a loop's
// rounding, comparisons of bits, and comparisons with bits on which all machines agree.
package numbers

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/internal/kernel"
)

// Vectors returns the kinds of vector loops that this processor runs. If there are none,
// it returns kernel.Portable, which has the same error bounds.
func Vectors() []kernel.Kind {
	var have []kernel.Kind
	for _, k := range kernel.Available() {
		if v := k.Vectors(); v != kernel.Portable {
			have = append(have, v)
		}
	}
	if have == nil {
		have = []kernel.Kind{kernel.Portable}
	}
	return have
}

// Normals returns n numbers of mean 0 and variance 1.
func Normals[T kernel.Float](r *rand.Rand, n int) []T {
	x := make([]T, n)
	for i := range x {
		x[i] = T(r.NormFloat64())
	}
	return x
}

// Special returns n float32 that differ in size so much that their sums are rounded. Some
// of them come from the list `some`.
func Special(r *rand.Rand, n int, some ...float32) []float32 {
	x := Normals[float32](r, n)
	for i := range x {
		x[i] *= float32(math.Exp2(float64(r.IntN(60) - 30)))
		if len(some) > 0 && r.IntN(1+n/3) == 0 {
			x[i] = some[r.IntN(len(some))]
		}
	}
	return x
}

// Sweep returns float32 of every size and sign: one of every `step` neighbours, of both
// signs, and all special values.
func Sweep(step uint32) []float32 {
	x := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), -float32(math.NaN()),
		0x1p-149, -0x1p-149, 0x1p-126, math.MaxFloat32, -math.MaxFloat32, 88.72283, 88.72284, -87.33654, -87.33655, -103.972, -103.973, -103.9721, -104, 0.625, -0.625}
	for b := uint32(1); b < 0x7f800000-step; b += step {
		x = append(x, math.Float32frombits(b), math.Float32frombits(b|1<<31))
	}
	return x
}

// SameBits compares bits and fails the test if they differ. All NaNs count as the same.
func SameBits[T kernel.Float](t *testing.T, what string, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range want {
		g, w := float64(got[i]), float64(want[i])
		if math.Float64bits(g) != math.Float64bits(w) && !(g != g && w != w) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, g, w)
		}
	}
}

// ULP returns the distance between neighbouring float32 around x.
func ULP(x float64) float64 {
	x = math.Abs(x)
	if x < 0x1p-126 {
		return 0x1p-149
	}
	_, e := math.Frexp(x)
	return math.Ldexp(1, e-24)
}
