package random

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/array"
)

// Of all 16 random bits there are, as many round a number up as make it the mean.
func TestRoundBrain(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	const all = 1 << 16
	for _, tt := range []struct {
		x, lo, hi float32
		up        int // of all random bits
	}{
		{1, 1, 1, 0},
		{1 + 0x1p-9, 1, 1 + 0x1p-7, all / 4},
		{1 + 0x1p-8, 1, 1 + 0x1p-7, all / 2},
		{1 + 3*0x1p-9, 1, 1 + 0x1p-7, 3 * all / 4},
		{1 - 0x1p-10, 1 - 0x1p-8, 1, 3 * all / 4}, // below a power of two
		{2 - 0x1p-9, 2 - 0x1p-7, 2, 3 * all / 4},
		{1.4921875 + 0x1p-10, 1.4921875, 1.5, all / 8},
		{1 + 0x1p-23, 1, 1 + 0x1p-7, 1},
		{-1 - 0x1p-9, -1, -1 - 0x1p-7, all / 4},
		{0x1p-133 + 0x1p-134, 0x1p-133, 0x1p-132, all / 2}, // between two subnormal numbers
		{0x1p-149, 0, 0x1p-133, 1},
		{0, 0, 0, 0}, {inf, inf, inf, 0}, {-inf, -inf, -inf, 0}, {0x1.fep127, 0x1.fep127, 0x1.fep127, 0},
		{math.MaxFloat32, 0x1.fep127, inf, all - 1},
	} {
		up := 0
		for r := range uint32(all) {
			switch y := brain(tt.x, r).Float32(); y {
			case tt.lo:
			case tt.hi:
				up++
			default:
				t.Fatalf("%g with the bits %04x is rounded to %g, want %g or %g", tt.x, r, y, tt.lo, tt.hi)
			}
		}
		if up != tt.up {
			t.Errorf("%g is rounded to %g by %d of %d, want %d", tt.x, tt.hi, up, all, tt.up)
		}
	}
	for _, x := range []float32{nan, -nan, math.Float32frombits(0x7f800001), math.Float32frombits(0xffffffff)} {
		for _, r := range []uint32{0, 1, 0xffff} {
			if y := brain(x, r); y.Float32() == y.Float32() || uint32(y)&0x8000 != math.Float32bits(x)>>16&0x8000 {
				t.Errorf("%08x becomes %04x, want a NaN of that sign", math.Float32bits(x), y)
			}
		}
	}
}

// All kernels round alike, wherever they begin and whatever the room: an element depends on the key and its index alone.
func TestRoundBrainLoops(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 44))
	special := []uint32{0, 1 << 31, 0x7f800000, 0xff800000, 0x7f800001, 0xffffffff, 0x7fffffff, 0x7f7fffff, 0xff7fffff, 1, 0x8000, 0xffff}
	for name, l := range loopsHere() {
		for n := range 200 {
			if n > 150 {
				n *= 50
			}
			key, offset := [2]uint32{r.Uint32(), r.Uint32()}, r.Uint64()
			if n%3 == 0 {
				offset = 1<<33*uint64(r.IntN(4)+1) - uint64(r.IntN(n+1)) // the lower word of the counter overflows
			}
			x, y := make([]float32, n), make([]array.Brain, n+1)
			for i := range x {
				x[i] = math.Float32frombits(r.Uint32())
				if i%7 == 3 {
					x[i] = math.Float32frombits(special[r.IntN(len(special))])
				}
			}
			y[n] = 77
			roundBrain(l, y[:n], x, key, offset, make([]uint32, 1+r.IntN(Few)))
			var word [1]uint32
			for i := range x {
				at := offset + uint64(i)
				bits32(nil, word[:], key, at/2)
				if want := brain(x[i], word[0]>>(16*(at%2))&0xffff); y[i] != want {
					t.Fatalf("%s: element %d of %d from %#x, %08x, becomes %04x, want %04x", name, i, n, offset, math.Float32bits(x[i]), y[i], want)
				}
			}
			if y[n] != 77 {
				t.Fatalf("%s: something is written behind %d", name, n)
			}
		}
	}
}

func BenchmarkRoundBrain(b *testing.B) {
	x, y, room := make([]float32, 1<<16), make([]array.Brain, 1<<16), make([]uint32, Few)
	for i := range x {
		x[i] = float32(i) / 3
	}
	for name, l := range loopsHere() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(6 * int64(len(x)))
			for b.Loop() {
				roundBrain(l, y, x, [2]uint32{1, 2}, 0, room)
			}
		})
	}
}
