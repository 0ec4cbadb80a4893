package random

import (
	"math"
	"testing"

	"github.com/gomoe/gomoe/internal/testing/numbers"
)

func TestErfinv(t *testing.T) {
	xs := []float64{1 - 0x1p-23, 1 - 0x1p-20, -1 + 0x1p-22, 1e-30}
	for x := -0.9999; x < 1; x += 0.00137 {
		xs = append(xs, x)
	}
	for _, x := range xs {
		f := float32(x)
		if got, want := float64(erfinv32(f)), math.Erfinv(float64(f)); math.Abs(x) <= 0.9999 && math.Abs(got-want) > 1e-5*math.Abs(want) {
			t.Errorf("erfinv(%v) is %v in float32, want %v", f, got, want)
		}
		if got, want := erfinv64(x), math.Erfinv(x); math.Abs(got-want) > 1e-11*math.Abs(want) {
			t.Errorf("erfinv(%v) is %v, want %v", x, got, want)
		}
	}
	if x := 1 - 0x1p-40; math.Abs(erfinv64(x)/math.Erfinv(x)-1) > 1e-5 { // the third range
		t.Errorf("erfinv(%v) is %v, want %v", x, erfinv64(x), math.Erfinv(x))
	}
	for _, x := range []float64{0, 1, -1, math.NaN()} {
		want := []float64{math.Erfinv(x)}
		numbers.SameBits(t, "erfinv32", []float64{float64(erfinv32(float32(x)))}, want)
		numbers.SameBits(t, "erfinv64", []float64{erfinv64(x)}, want)
	}
}
