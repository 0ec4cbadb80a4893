package array

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// round returns x rounded to nearest even with prec bits and exponents from
// 2^min, in big.Float arithmetic: an oracle that shares no code with half.go.
func round(x float64, prec uint, low int, largest float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	_, e := math.Frexp(x) // x is in [2^(e-1), 2^e)
	ulp := max(e-int(prec), low)
	q := new(big.Float).SetMantExp(new(big.Float).SetFloat64(x), -ulp) // in units of the last place
	n, _ := q.Int(nil)
	rest, _ := new(big.Float).Sub(q, new(big.Float).SetInt(n)).Float64()
	if r := math.Abs(rest); r > 0.5 || r == 0.5 && n.Bit(0) == 1 {
		n.Add(n, big.NewInt(int64(math.Copysign(1, x))))
	}
	f, _ := new(big.Float).SetMantExp(new(big.Float).SetInt(n), ulp).Float64()
	if math.Abs(f) > largest {
		return math.Copysign(math.Inf(1), x)
	}
	return math.Copysign(f, x)
}

func toBrain(x float64) float64 { return round(x, 8, -133, 0x1.fep127) }
func toHalf(x float64) float64  { return round(x, 11, -24, 65504) }

func same(x, y float64) bool {
	return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y
}

func TestHalfPatterns(t *testing.T) {
	for i := range 1 << 16 {
		b, h := Brain(i), Half(i)
		if got := BrainOf(b.Float32()); got != b && (b&0x7fff <= 0x7f80 || got != b|0x40) {
			t.Fatalf("bf16 %04x widened and narrowed is %04x", b, got)
		}
		if got := HalfOf(h.Float32()); got != h && (h&0x7fff <= 0x7c00 || got != h|0x200) {
			t.Fatalf("f16 %04x widened and narrowed is %04x", h, got)
		}
		sign := 1 - 2*float64(i>>15)
		want := sign * math.Ldexp(float64(1024+i&0x3ff), i>>10&31-25)
		switch i >> 10 & 31 {
		case 0:
			want = math.Copysign(math.Ldexp(float64(i&0x3ff), -24), sign)
		case 31:
			want = math.Inf(int(sign))
			if i&0x3ff != 0 {
				want = math.NaN()
			}
		}
		if got := float64(h.Float32()); !same(got, want) {
			t.Fatalf("f16 %04x is %v, want %v", h, got, want)
		}
	}
}

func TestHalfRounding(t *testing.T) {
	check := func(x float64) {
		t.Helper()
		if got := float64(BrainOf64(x).Float32()); !same(got, toBrain(x)) {
			t.Fatalf("bf16 of %x is %v, want %v", x, got, toBrain(x))
		}
		if got := float64(HalfOf64(x).Float32()); !same(got, toHalf(x)) {
			t.Fatalf("f16 of %x is %v, want %v", x, got, toHalf(x))
		}
		f := float32(x)
		if got := float64(BrainOf(f).Float32()); !same(got, toBrain(float64(f))) {
			t.Fatalf("bf16 of %x is %v, want %v", f, got, toBrain(float64(f)))
		}
		if got := float64(HalfOf(f).Float32()); !same(got, toHalf(float64(f))) {
			t.Fatalf("f16 of %x is %v, want %v", f, got, toHalf(float64(f)))
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		check(float64(math.Float32frombits(r.Uint32())))
		check(math.Float64frombits(r.Uint64()))
		check(math.Ldexp(r.NormFloat64(), r.IntN(60)-40)) // where f16 lives
	}
	// Every number, the ties between neighbours, and the float32 and float64 next to
	// each tie on both sides.
	for i := range 1 << 16 {
		for _, x := range [...][2]float32{
			{Brain(i).Float32(), Brain(i + 1).Float32()},
			{Half(i).Float32(), Half(i + 1).Float32()},
		} {
			tie := (float64(x[0]) + float64(x[1])) / 2
			check(float64(x[0]))
			check(tie)
			check(math.Nextafter(tie, math.Inf(1)))
			check(math.Nextafter(tie, math.Inf(-1)))
			check(float64(math.Nextafter32(float32(tie), float32(math.Inf(1)))))
			check(float64(math.Nextafter32(float32(tie), float32(math.Inf(-1)))))
		}
	}
	for _, x := range []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 65519, 65520, 65521,
		-65520, 0x1p-25, 0x1.8p-25, 0x1p-24, 0x1p-133, 0x1p-134, 0x1.fffp-135, 5e-324, math.MaxFloat64, 0x1.fffffep127, 0x1.ff0000001p127} {
		check(x)
	}
}

func TestHalfSlices(t *testing.T) {
	x := []float32{0, 1, -2.5, 65504, 1e-7, float32(math.Inf(-1)), 3.14159}
	brain, half := make([]Brain, len(x)+1), make([]Half, len(x)+1)
	NarrowBrain(brain, x)
	NarrowHalf(half, x)
	wideB, wideH := make([]float32, len(x)), make([]float32, len(x))
	WidenBrain(wideB, brain[:len(x)])
	WidenHalf(wideH, half[:len(x)])
	for i := range x {
		if wideB[i] != BrainOf(x[i]).Float32() || wideH[i] != HalfOf(x[i]).Float32() {
			t.Errorf("element %d of %v is %v and %v", i, x, wideB[i], wideH[i])
		}
	}
	if brain[len(x)] != 0 || half[len(x)] != 0 {
		t.Error("narrowing wrote past the source's length")
	}
}
