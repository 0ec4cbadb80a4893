package norm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// norms runs every norm on the rows of n elements of x.
func norms[T kernel.Float](v kernel.Kind, x, gain, bias, ct []T, n int, eps float64) map[string][]float64 {
	rows := len(x) / n
	got := map[string][]float64{}
	each := func(name string, f func(y []T)) {
		y := make([]T, len(x)+1)
		y[len(x)] = 7
		f(y[:len(x)])
		if y[len(x)] != 7 {
			panic(name + " wrote behind the last")
		}
		for _, y := range y[:len(x)] {
			got[name] = append(got[name], float64(y))
		}
	}
	each("rms_norm", func(y []T) { rmsNormOf(v, y, x, gain, n, eps) })
	each("rms_norm_grad", func(y []T) { rmsNormGradOf(v, y, x, gain, ct, n, eps) })
	each("layer_norm", func(y []T) { layerNormOf(v, y, x, gain, bias, n, eps) })
	each("layer_norm_grad", func(y []T) { layerNormGradOf(v, y, x, gain, ct, n, eps) })
	inv, mean, inverse := make([]float64, rows), make([]float64, rows), make([]float64, rows)
	rmsInverseOf(v, inv, x, n, eps)
	momentsOf(v, mean, inverse, x, n, eps)
	gains, layerGains, biases := make([]float64, n), make([]float64, n), make([]float64, n)
	half := n / 3 // columns are cut anywhere
	for _, c := range [][2]int{{0, half}, {half, n}} {
		if rows > 0 {
			lo, hi := c[0], c[1]
			addGainOf(v, gains[lo:hi], x[lo:], ct[lo:], n, nil, inv)
			addGainOf(v, layerGains[lo:hi], x[lo:], ct[lo:], n, mean, inverse)
			addBiasOf(v, biases[lo:hi], ct[lo:], n, rows)
		}
	}
	got["inverse"], got["mean"], got["inverse_deviation"] = inv, mean, inverse
	got["rms_norm_gain"], got["layer_norm_gain"], got["layer_norm_bias"] = gains, layerGains, biases
	return got
}

// normsRef computes the same formulas with sums in which roundings are compensated.
func normsRef(x, gain, bias, ct []float32, n int, eps float64) map[string][]float64 {
	sum := func(f func(i int) float64) float64 {
		s, lost := 0.0, 0.0
		for i := range n {
			y := f(i) - lost
			t := s + y
			lost = (t - s) - y
			s = t
		}
		return s
	}
	want := map[string][]float64{"rms_norm_gain": make([]float64, n), "layer_norm_gain": make([]float64, n), "layer_norm_bias": make([]float64, n)}
	put := func(name string, x float64) { want[name] = append(want[name], x) }
	for r := 0; r < len(x); r += n {
		at := func(x []float32, i int) float64 { return float64(x[r+i]) }
		g := func(i int) float64 { return at(ct, i) * float64(gain[i]) }
		inv := 1 / math.Sqrt(sum(func(i int) float64 { return at(x, i) * at(x, i) })/float64(n)+eps)
		dot := sum(func(i int) float64 { return g(i) * at(x, i) }) / float64(n)
		mean := sum(func(i int) float64 { return at(x, i) }) / float64(n)
		dev := 1 / math.Sqrt(sum(func(i int) float64 { return (at(x, i) - mean) * (at(x, i) - mean) })/float64(n)+eps)
		gmean := sum(g) / float64(n)
		gdot := sum(func(i int) float64 { return g(i) * (at(x, i) - mean) }) / float64(n)
		put("inverse", inv)
		put("mean", mean)
		put("inverse_deviation", dev)
		for i := range n {
			put("rms_norm", at(x, i)*inv*float64(gain[i]))
			put("rms_norm_grad", inv*(g(i)-at(x, i)*inv*inv*dot))
			put("layer_norm", (at(x, i)-mean)*dev*float64(gain[i])+float64(bias[i]))
			put("layer_norm_grad", dev*(g(i)-gmean-(at(x, i)-mean)*dev*dev*gdot))
			want["rms_norm_gain"][i] += at(ct, i) * at(x, i) * inv
			want["layer_norm_gain"][i] += at(ct, i) * (at(x, i) - mean) * dev
			want["layer_norm_bias"][i] += at(ct, i)
		}
	}
	return want
}

// Every kernel has the same bits, and each result is within a rounding of float32 of the exact one.
func TestNorms(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	for _, rows := range []int{0, 1, 2, 5, 100} {
		for _, n := range []int{1, 2, 15, 16, 17, 32, 48, 50, 160, 512, 1003} {
			x, ct, gain, bias := numbers.Normals[float32](r, rows*n), numbers.Normals[float32](r, rows*n), numbers.Normals[float32](r, n), numbers.Normals[float32](r, n)
			for i := range x {
				x[i] += 3 // a mean
			}
			first, want := norms(kernel.Portable, x, gain, bias, ct, n, 1e-5), normsRef(x, gain, bias, ct, n, 1e-5)
			for name, got := range first {
				for i, got := range got {
					w := want[name][i]
					// Sums in float64 are wrong by a few 2⁻⁵², which is left where they cancel.
					if d := math.Abs(got - w); !(d <= 0.5001*numbers.ULP(w)+1e-12) {
						t.Fatalf("%d rows of %d: %s[%d] is %v, want %v", rows, n, name, i, got, w)
					}
				}
			}
			for _, v := range numbers.Vectors() {
				for name, got := range norms(v, x, gain, bias, ct, n, 1e-5) {
					numbers.SameBits(t, fmt.Sprintf("%v: %d rows of %d: %s", v, rows, n, name), got, first[name])
				}
			}
		}
	}
}

// Sums have the same order with all kernels. Sums that cancel would show a difference.
func TestNormOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(49, 50))
	const half = 40
	for range 20 {
		x, ct := make([]float32, 2*half), make([]float32, 2*half)
		for i := range half {
			j := half + (i+5)%half
			x[i], ct[i] = float32(math.Ldexp(r.NormFloat64(), r.IntN(20))), float32(math.Ldexp(r.NormFloat64(), r.IntN(20)))
			if i%8 == 0 {
				ct[i] = 0 // the cotangent of x is that of the sums alone
			}
			x[j], ct[j] = x[i], -ct[i] // the sums cancel; only roundings are left
		}
		one := make([]float32, 2*half)
		for i := range one {
			one[i] = 1
		}
		first := norms(kernel.Portable, x, one, one, ct, 2*half, 1e-5)
		for _, v := range numbers.Vectors() {
			for name, got := range norms(v, x, one, one, ct, 2*half, 1e-5) {
				numbers.SameBits(t, fmt.Sprintf("%v: %s", v, name), got, first[name])
			}
		}
	}
}

// A row has the same bits alone and among other rows, of which one has a NaN.
func TestNormRows(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 44))
	const rows, n = 6, 48
	x, ct, gain, bias := numbers.Normals[float32](r, rows*n), numbers.Normals[float32](r, rows*n), numbers.Normals[float32](r, n), numbers.Normals[float32](r, n)
	for _, v := range append(numbers.Vectors(), kernel.Portable) {
		bad := slices.Clone(x)
		bad[2*n+5] = float32(math.NaN())
		all := norms(v, bad, gain, bias, ct, n, 0)
		for k := range rows {
			one := norms(v, bad[k*n:][:n], gain, bias, ct[k*n:][:n], n, 0)
			for _, name := range []string{"rms_norm", "rms_norm_grad", "layer_norm", "layer_norm_grad", "inverse", "mean", "inverse_deviation"} {
				m := len(one[name])
				if k == 2 {
					for i, x := range all[name][k*m:][:m] {
						if x == x {
							t.Errorf("%v: %s[%d] of a row with NaN is %v", v, name, i, x)
						}
					}
					continue
				}
				numbers.SameBits(t, fmt.Sprintf("%v: row %d of %s", v, k, name), one[name], all[name][k*m:][:m])
			}
		}
	}
}

func TestTurn(t *testing.T) {
	r := rand.New(rand.NewPCG(45, 46))
	for _, n := range []int{0, 1, 5, 16, 32, 40, 64} {
		for _, heads := range []int{0, 1, 3} {
			d := 2 * n
			x, cos, sin := numbers.Normals[float32](r, heads*d), numbers.Normals[float64](r, n), numbers.Normals[float64](r, n)
			want := make([]float32, len(x))
			for h := range heads {
				for i := range n {
					x1, x2, s := float64(x[h*d+i]), float64(x[h*d+n+i]), -sin[i]
					want[h*d+i] = float32(float64(x1*cos[i]) - float64(x2*s))
					want[h*d+n+i] = float32(float64(x2*cos[i]) + float64(x1*s))
				}
			}
			for _, v := range append(numbers.Vectors(), kernel.Portable) {
				got, place := make([]float32, len(x)), slices.Clone(x)
				turnOf(v, got, got[min(n, len(got)):], x, x[min(n, len(x)):], d, heads, cos, sin, -1)
				turnOf(v, place, place[min(n, len(x)):], place, place[min(n, len(x)):], d, heads, cos, sin, -1)
				numbers.SameBits(t, fmt.Sprintf("%v: %d heads of %d pairs", v, heads, n), got, want)
				numbers.SameBits(t, fmt.Sprintf("%v: %d heads of %d pairs in place", v, heads, n), place, want)
			}
		}
	}
}

func BenchmarkNorms(b *testing.B) {
	const rows, n = 256, 512
	r := rand.New(rand.NewPCG(47, 48))
	x, ct, gain, y := numbers.Normals[float32](r, rows*n), numbers.Normals[float32](r, rows*n), numbers.Normals[float32](r, n), make([]float32, rows*n)
	inv, sum := make([]float64, rows), make([]float64, n)
	cos, sin := numbers.Normals[float64](r, 32), numbers.Normals[float64](r, 32)
	for _, k := range kernel.Available() {
		v := k.Vectors()
		for _, l := range []struct {
			name string
			do   func()
		}{
			{"rms_norm", func() { rmsNormOf(v, y, x, gain, n, 1e-6) }},
			{"rms_norm_grad", func() { rmsNormGradOf(v, y, x, gain, ct, n, 1e-6) }},
			{"gain", func() { addGainOf(v, sum, x, ct, n, nil, inv) }},
			{"layer_norm", func() { layerNormOf(v, y, x, gain, gain, n, 1e-6) }},
			{"layer_norm_grad", func() { layerNormGradOf(v, y, x, gain, ct, n, 1e-6) }},
			{"rope", func() { turnOf(v, y, y[32:], x, x[32:], 64, rows*n/64, cos, sin, 1) }},
		} {
			b.Run(l.name+"/"+k.String(), func(b *testing.B) {
				for b.Loop() {
					l.do()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(rows*n), "ns/element")
			})
		}
	}
}
