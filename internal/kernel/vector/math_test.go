package vector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// mathHere returns the loops of this processor by the names of their kernels.
func mathHere() map[string]*mathLoops {
	have := map[string]*mathLoops{"portable": nil}
	for _, k := range kernel.Available() {
		if l := mathOf(k.Vectors()); l != nil {
			have[k.String()] = l
		}
	}
	return have
}

// mathFunction is a function of the package on one or two arguments, and its exact
// value.
type mathFunction struct {
	name  string
	do    func(l *mathLoops, z, x, y []float32)
	exact func(x, y float64) float64
	ulps  float64 // 0 where the bits are those of the portable kernels
}

func mathFunctions() []mathFunction {
	one := func(name string, loop int, ulps float64, f func(x float64) float64) mathFunction {
		exact := func(x, _ float64) float64 { return f(x) }
		if f == nil {
			exact = nil
		}
		return mathFunction{name, func(l *mathLoops, z, x, _ []float32) { unary(l, loop, z, x) }, exact, ulps}
	}
	two := func(name string, loop int, ulps float64, f func(x, y float64) float64) mathFunction {
		return mathFunction{name, func(l *mathLoops, z, x, y []float32) { binaryOf(l, loop, z, x, y) }, f, ulps}
	}
	round := func(name string, which int, f func(float64) float64) mathFunction {
		return mathFunction{name, func(l *mathLoops, z, x, _ []float32) { circle(l, which, z, x, f) }, func(x, _ float64) float64 { return f(x) }, 0.51}
	}
	return []mathFunction{
		one("neg", loopNeg, 0, nil), one("abs", loopAbs, 0, nil), one("sign", loopSign, 0, nil), one("square", loopSquare, 0, nil), one("sqrt", loopSqrt, 0, nil),
		one("floor", loopFloor, 0, nil), one("ceil", loopCeil, 0, nil), one("round", loopRound, 0, nil), one("round_to_even", loopRoundToEven, 0, nil),
		one("rsqrt", loopRsqrt, 0, nil),
		two("add", loopAdd, 0, nil), two("sub", loopSub, 0, nil), two("mul", loopMul, 0, nil), two("div", loopDiv, 0, nil),
		two("max", loopMaximum, 0, nil), two("min", loopMinimum, 0, nil),
		{"clamp", func(l *mathLoops, z, x, _ []float32) { clamp(l, z, x, -0.5, 3) }, nil, 0},
		{"clamp to 0", func(l *mathLoops, z, x, _ []float32) { clamp(l, z, x, 0, 0) }, nil, 0},
		{"add_product", func(l *mathLoops, z, x, y []float32) { addProduct(l, z, y, x, y) }, nil, 0},
		one("expm1", loopExpm1, 0.51, math.Expm1), one("log", loopLog, 0.51, math.Log), one("log1p", loopLog1p, 0.51, math.Log1p),
		two("pow", loopPow, 0.51, math.Pow),
		one("erf", loopErf, 0.51, math.Erf), round("sin", 0, math.Sin), round("cos", 1, math.Cos),
		one("gelu", loopGELU, 0.51, gelu), one("gelu_tanh", loopGELUTanh, 0.51, geluTanh),
		two("gelu_grad", loopGELUGrad, 0, func(x, y float64) float64 { return y * geluSlope(x) }),
		two("gelu_tanh_grad", loopGELUTanhGrad, 0, func(x, y float64) float64 { return y * geluTanhSlope(x) }),
	}
}

// samples returns in x float32 of every size and sign and around 0, and in y others.
func samples(step uint32) (x, y []float32) {
	x = numbers.Sweep(step)
	for v := float32(-20); v < 20; v += 0.00371 {
		x = append(x, v)
	}
	for k := -20; k < 20; k++ {
		h := float32(k) + 0.5
		x = append(x, h, math.Nextafter32(h, -100), math.Nextafter32(h, 100), float32(k))
	}
	for k := 20; k < 66; k++ { // where integers and reductions end
		h := float32(math.Ldexp(1, k))
		x = append(x, h, -h, math.Nextafter32(h, 0), -math.Nextafter32(h, 0), math.Nextafter32(h, 2*h), -math.Nextafter32(h, 2*h))
	}
	r := rand.New(rand.NewPCG(31, 32))
	y = numbers.Normals[float32](r, len(x))
	for i := 0; i < len(y); i += 7 { // equal ones, and special ones
		y[i] = x[i]
		y[(i+3)%len(y)] = x[i%50]
	}
	return x, y
}

// alike reports whether x and y have the same bits or are both NaN.
func alike(x, y float32) bool {
	return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
}

func TestMathAccuracy(t *testing.T) {
	x, y := samples(16001)
	n := len(x)
	for _, f := range mathFunctions() {
		portable, got, first := make([]float32, n), make([]float32, n), []float32(nil)
		f.do(nil, portable, x, y)
		for name, l := range mathHere() {
			f.do(l, got, x, y)
			worst, at, others := 0.0, 0, 0
			for i := range got {
				if f.exact == nil {
					if !alike(got[i], portable[i]) {
						t.Fatalf("%s %s(%v, %v) is %v, want %v", name, f.name, x[i], y[i], got[i], portable[i])
					}
					continue
				}
				if got[i] != portable[i] && (got[i] == got[i] || portable[i] == portable[i]) {
					others++
				}
				if f.ulps == 0 && math.IsInf(float64(y[i]), 0) {
					continue // the derivative is 0 with some kernels, and not quite 0 with others
				}
				want := f.exact(float64(x[i]), float64(y[i]))
				if want != want || math.IsInf(float64(float32(want)), 0) || want == 0 {
					if !alike(got[i], float32(want)) && !(got[i] == 0 && want == 0 && x[i] != 0) { // where x is -0, so is the result
						t.Fatalf("%s %s(%v, %v) is %v, want %v", name, f.name, x[i], y[i], got[i], want)
					}
					continue
				}
				bound := f.ulps
				d := math.Abs(float64(got[i])-want) / numbers.ULP(want)
				if bound == 0 { // a sum whose terms may cancel
					d = math.Abs(float64(got[i])-want) / (numbers.ULP(want) + 0x1p-32*math.Abs(float64(y[i])))
					bound = 0.51
				}
				if !(d <= worst) {
					worst, at = d, i
				}
				if !(d <= bound) {
					t.Fatalf("%s %s(%v, %v) is %v, want %v: wrong by %v ulp", name, f.name, x[i], y[i], got[i], want, d)
				}
			}
			if f.exact != nil {
				t.Logf("%s %s: %.4f ulp at %v, %d of %d are not as portable", name, f.name, worst, x[at], others, n)
			}
			if l == nil {
				continue
			}
			if first == nil {
				first = append([]float32(nil), got...)
			}
			for i := range got {
				if !alike(got[i], first[i]) {
					t.Fatalf("%s(%v, %v) is %v with %s, %v with others", f.name, x[i], y[i], got[i], name, first[i])
				}
			}
		}
	}
}

// TestMathRanges takes every length and place, with results in a new slice and over an argument.
func TestMathRanges(t *testing.T) {
	x, y := samples(1 << 22)
	r := rand.New(rand.NewPCG(33, 34))
	r.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
	for _, f := range mathFunctions() {
		for name, l := range mathHere() {
			whole := make([]float32, len(x))
			f.do(l, whole, x, y)
			for n := range 150 {
				lo := r.IntN(len(x) - n)
				out := make([]float32, n+2)
				out[0], out[n+1] = 7, 7
				f.do(l, out[1:n+1], x[lo:lo+n], y[lo:lo+n])
				over := append([]float32(nil), x[lo:lo+n]...)
				f.do(l, over, over, y[lo:lo+n])
				if out[0] != 7 || out[n+1] != 7 {
					t.Fatalf("%s %s of %d elements writes beside them", name, f.name, n)
				}
				for i := range n {
					if !alike(out[1+i], whole[lo+i]) || !alike(over[i], whole[lo+i]) {
						t.Fatalf("%s %s(%v, %v), element %d of %d, is %v, in place %v, in a longer slice %v", name, f.name, x[lo+i], y[lo+i], i, n, out[1+i], over[i], whole[lo+i])
					}
				}
			}
		}
	}
}

func BenchmarkMath(b *testing.B) {
	r := rand.New(rand.NewPCG(35, 36))
	for _, n := range []int{8, 4096} {
		x, y, z := numbers.Normals[float32](r, n), numbers.Normals[float32](r, n), make([]float32, n)
		for _, f := range mathFunctions() {
			for name, l := range mathHere() {
				b.Run(fmt.Sprintf("%s/%d/%s", f.name, n, name), func(b *testing.B) {
					for b.Loop() {
						f.do(l, z, x, y)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/element")
				})
			}
		}
	}
}

// TestPowSpecial takes every pair of special arguments.
func TestPowSpecial(t *testing.T) {
	inf := float32(math.Inf(1))
	some := []float32{0, 0.25, 0.5, 1, math.Nextafter32(1, 2), 1.25, 2, 3, 4, 1 << 23, 1<<24 - 1, 1 << 24, math.MaxFloat32, inf, float32(math.NaN()), 0x1p-149, 0x1p-126}
	var x, y []float32
	for _, a := range some {
		for _, b := range some {
			x, y = append(x, a, -a, a, -a), append(y, b, b, -b, -b)
		}
	}
	for name, l := range mathHere() {
		z := make([]float32, len(x))
		binaryOf(l, loopPow, z, x, y)
		for i := range z {
			if want := float32(math.Pow(float64(x[i]), float64(y[i]))); !alike(z[i], want) {
				t.Errorf("%s: %v to the power of %v is %v, want %v", name, x[i], y[i], z[i], want)
			}
		}
	}
}
