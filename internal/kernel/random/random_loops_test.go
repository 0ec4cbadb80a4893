package random

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// Bits and uniform numbers are the same with all kernels, wherever they begin, also
// where the counter's lower word overflows. Normal numbers are the same too, except for
// the rare ones that rounding once makes different.
func TestRandomLoops(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	for name, l := range loopsHere() {
		for n := range 200 {
			if n > 150 {
				n *= 50
			}
			key := [2]uint32{r.Uint32(), r.Uint32()}
			offset := r.Uint64()
			if n%3 == 0 {
				offset = 1<<32*uint64(r.IntN(4)+1) - uint64(r.IntN(n+1))
			}
			got, want := make([]uint32, n+1), make([]uint32, n)
			got[n] = 77
			bits32(l, got[:n], key, offset)
			bits32(nil, want, key, offset)
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%s: bits %d of %d from %#x are %#x, want %#x", name, i, n, offset, got[i], want[i])
				}
			}
			if got[n] != 77 {
				t.Fatalf("%s: bits are written behind %d", name, n)
			}
			x, y := make([]float32, n), make([]float32, n)
			for _, b := range [][2]float32{{0, 1}, {-1, 1}, {math.Nextafter32(-1, 0), 1}, {-3e-3, 7}, {1e30, 2e30}, {0, 0x1p-149}} {
				uniform(l, x, key, offset, b[0], b[1])
				uniform(nil, y, key, offset, b[0], b[1])
				numbers.SameBits(t, name+" uniform", x, y)
			}
			normal(l, x, key, offset)
			normal(nil, y, key, offset)
			for i := range x {
				if d := math.Abs(float64(x[i] - y[i])); !(d <= 2*numbers.ULP(float64(y[i]))) {
					t.Fatalf("%s: normal number %d is %v, want %v", name, i, x[i], y[i])
				}
			}
		}
	}
}

// TestNormalOfEveryUniform takes a part of all uniform numbers, and all near both ends.
func TestNormalOfEveryUniform(t *testing.T) {
	var u []float32
	for i := uint32(0); i < 1<<23; i += 61 {
		u = append(u, float32(i)*0x1p-22-1+0x1p-24)
	}
	for i := uint32(1); i < 4096; i++ {
		u = append(u, -1+float32(i)*0x1p-22, 1-float32(i)*0x1p-22, math.Float32frombits(i*1000))
	}
	u = append(u, math.Nextafter32(-1, 0), 0, float32(math.Copysign(0, -1)))
	y, first32, different := make([]float32, len(u)), []float32(nil), 0
	for name, l := range loopsHere() {
		if l == nil || l.normal == nil {
			continue
		}
		l.normal(len(u), first(y), first(u))
		for i, u := range u {
			want := float32(math.Sqrt2) * erfinv32(u)
			if y[i] != want {
				different++
			}
			if d := math.Abs(float64(y[i] - want)); !(d <= 2*numbers.ULP(float64(want))) {
				t.Fatalf("%s: the normal number of %v is %v, want %v", name, u, y[i], want)
			}
		}
		if first32 == nil {
			first32 = append([]float32(nil), y...)
		}
		numbers.SameBits(t, name, y, first32)
	}
	t.Logf("%d of %d are not as portable; none are made where no kernel of this processor has a loop for them", different, len(u))
}
