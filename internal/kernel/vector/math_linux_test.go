package vector

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// No loop touches what is behind the last element; if one did, this test would crash.
func TestMathStaysInside(t *testing.T) {
	r := rand.New(rand.NewPCG(81, 82))
	room := make([]float64, SumRoom)
	for _, n := range []int{1, 2, 7, 8, 9, 15, 16, 17, 31, 40, 63, 64, 65, 130} {
		x, y, z := numbers.AtGuard(t, numbers.Normals[float32](r, n)), numbers.AtGuard(t, numbers.Normals[float32](r, n)), numbers.AtGuard(t, make([]float32, n))
		words := func(x []float32) []uint32 { return unsafe.Slice((*uint32)(unsafe.Pointer(&x[0])), len(x)) }
		bytes := numbers.AtGuard(t, make([]float32, (n+3)/4))
		flags := unsafe.Slice((*bool)(unsafe.Add(unsafe.Pointer(&bytes[0]), len(bytes)*4-n)), n)
		for name, l := range mathHere() {
			for _, f := range mathFunctions() {
				f.do(l, z, x, y)
			}
			for c := range comparisons {
				compare(l, c, flags, x, y)
			}
			choice(l, words(z), words(x), words(y), flags)
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
		}
	}
}

// The same for the loops over vectors.
func TestVectorLoopsStayInside(t *testing.T) {
	have := numbers.Vectors()
	r := rand.New(rand.NewPCG(19, 20))
	for _, l := range rowLoops {
		for _, n := range []int{1, 7, 15, 16, 17, 31, 40, 70} {
			in, out := slicesOf(r, l.in, n), slicesOf(r, l.out, n)
			for i := range in {
				in[i] = numbers.AtGuard(t, in[i])
			}
			for i := range out {
				out[i] = numbers.AtGuard(t, out[i])
			}
			for _, v := range have {
				want := slicesOf(r, l.out, n)
				l.do(v, want, in)
				l.do(v, out, in)
				for i := range out {
					numbers.SameBits(t, l.name, out[i], want[i])
				}
			}
		}
	}
}
