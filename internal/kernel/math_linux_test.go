package kernel

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

// Nothing behind the last element is touched; if it were, this test would crash.
func TestMathStaysInside(t *testing.T) {
	r := rand.New(rand.NewPCG(81, 82))
	room := make([]float64, SumRoom)
	for _, n := range []int{1, 2, 7, 8, 9, 15, 16, 17, 31, 40, 63, 64, 65, 130} {
		x, y, z := atGuard(t, normals[float32](r, n)), atGuard(t, normals[float32](r, n)), atGuard(t, make([]float32, n))
		words := func(x []float32) []uint32 { return unsafe.Slice((*uint32)(unsafe.Pointer(&x[0])), len(x)) }
		bytes := atGuard(t, make([]float32, (n+3)/4))
		flags := unsafe.Slice((*bool)(unsafe.Add(unsafe.Pointer(&bytes[0]), len(bytes)*4-n)), n)
		for name, l := range mathHere() {
			for _, f := range mathFunctions() {
				f.do(l, z, x, y)
			}
			bits32(l, words(z), [2]uint32{1, 2}, 3)
			uniform(l, z, [2]uint32{1, 2}, 3, 0, 1)
			normal(l, z, [2]uint32{1, 2}, 3)
			for c := range comparisons {
				compare(l, c, flags, x, y)
			}
			choice(l, words(z), words(x), words(y), flags)
			difference(l, z, x, 1)
			softmaxGrad(l, z, x, y, n)
			logSoftmaxGrad(l, z, x, y, 1)
			if got, want := sum(l, x), sum(nil, x); got != want {
				t.Errorf("%s: the sum of %d is %v, want %v", name, n, got, want)
			}
			dot(l, x, y)
			largest(l, x)
			smallest(l, x)
			for _, rows := range []int{1, 2, 5} {
				if n%rows == 0 {
					sumColumns(l, z[n-n/rows:], x, rows, n/rows, room)
				}
			}
			scores := atGuard(t, make([]float64, n+ScoreRoom))
			sigmoids(l, scores, x)
			rootSoftplus(l, scores, x)
			softmaxRows(l, scores, x, n)
		}
	}
}
