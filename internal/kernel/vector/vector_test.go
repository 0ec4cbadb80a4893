package vector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// functions are those of one argument, with the bounds that their comments state.
var functions = []struct {
	name    string
	vector  func(v kernel.Kind, y, x []float32)
	exact   func(x float64) float64
	ulps    float64
	subnorm bool // 2⁻¹⁴⁹|x| more
}{
	{"exp", expOf[float32], math.Exp, 1.01, false},
	{"tanh", tanhOf[float32], math.Tanh, 2, false},
	{"logistic", logisticOf[float32], func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, 3, false},
	{"silu", siluOf[float32], func(x float64) float64 { return x / (1 + math.Exp(-x)) }, 4, true},
}

func TestFunctions(t *testing.T) {
	have := numbers.Vectors()
	x := numbers.Sweep(1511)
	y, first := make([]float32, len(x)), make([]float32, len(x))
	for _, f := range functions {
		for k, v := range have {
			f.vector(v, y, x)
			worst, at := 0.0, float32(0)
			for i, x := range x {
				want := f.exact(float64(x))
				if f.name == "silu" && x < -700 {
					continue // below
				}
				switch got := float64(y[i]); {
				case want != want || math.IsInf(float64(float32(want)), 0):
					if got != float64(float32(want)) && want == want || (got == got) != (want == want) {
						t.Fatalf("%s %v(%v) is %v, want %v", v, f.name, x, got, want)
					}
				default:
					d := math.Abs(got - want)
					if f.subnorm {
						d -= 0x1p-149 * math.Abs(float64(x))
					}
					if d /= numbers.ULP(want); !(d <= worst) {
						worst, at = d, x
					}
				}
			}
			t.Logf("%v %s: %.3f ulp at %v", v, f.name, worst, at)
			if !(worst <= f.ulps) {
				t.Errorf("%v %s is wrong by %v ulp at %v, want %v at most", v, f.name, worst, at, f.ulps)
			}
			if k == 0 {
				copy(first, y)
			}
			numbers.SameBits(t, fmt.Sprintf("%s with %v and %v", f.name, have[0], v), y, first)
		}
	}
	for _, v := range have {
		siluOf(v, y[:3], []float32{-1000, -math.MaxFloat32, float32(math.Inf(-1))})
		if y[0] != 0 || y[1] != 0 || y[2] == y[2] {
			t.Errorf("%v silu is %v, want -0 -0 NaN", v, y[:3])
		}
		expOf(v, y[:3], []float32{-103.9, -100, -104})
		if y[0] != 0x1p-149 || y[1] != float32(math.Exp(-100)) || y[2] != 0 {
			t.Errorf("%v exp below the normal numbers is %v", v, y[:3])
		}
	}
}

func TestGates(t *testing.T) {
	have := numbers.Vectors()
	r := rand.New(rand.NewPCG(21, 22))
	gate, up, ct := numbers.Sweep(15013), []float32(nil), []float32(nil)
	for x := float32(-30); x < 30; x += 0.00317 {
		gate = append(gate, x)
	}
	up, ct = numbers.Normals[float32](r, len(gate)), numbers.Normals[float32](r, len(gate))
	n := len(gate)
	y, dgate, dup, dx := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
	var first [4][]float32
	for _, v := range have {
		swigluOf(v, y, gate, up)
		swigluGradOf(v, dgate, dup, gate, up, ct)
		siluGradOf(v, dx, gate, ct)
		for i, x := range gate {
			x, u, c := float64(x), float64(up[i]), float64(ct[i])
			if x < -700 || x != x || math.Abs(x) > 1e37 {
				continue
			}
			s := sigmoid(x)
			size := s * (1 + math.Abs(x)/(1+math.Exp(x)))
			for _, f := range []struct {
				name             string
				got              float32
				want, bound, low float64
			}{
				{"swiglu", y[i], x * s * u, 5 * numbers.ULP(x*s*u), math.Abs(x * u)},
				{"dup", dup[i], x * s * c, 5 * numbers.ULP(x*s*c), math.Abs(x * c)},
				{"dgate", dgate[i], c * u * slope(x, s), 0x1p-21 * size * math.Abs(c*u), math.Abs(c*u) * (2 + math.Abs(x))},
				{"dsilu", dx[i], c * slope(x, s), 0x1p-21 * size * math.Abs(c), math.Abs(c) * (2 + math.Abs(x))},
			} {
				if d := math.Abs(float64(f.got) - f.want); !(d <= f.bound+0x1p-149*(2+f.low)) {
					t.Fatalf("%v %s of %v is %v, want %v: wrong by %v, at most %v", v, f.name, x, f.got, f.want, d, f.bound)
				}
			}
		}
		for i, got := range [][]float32{y, dgate, dup, dx} {
			if first[i] == nil {
				first[i] = append([]float32(nil), got...)
			}
			numbers.SameBits(t, fmt.Sprintf("result %d with %v and %v", i, have[0], v), got, first[i])
		}
	}
}

// rowLoop is a loop, its numbers of results and arguments, and a function that runs it.
type rowLoop struct {
	name    string
	out, in int
	do      func(v kernel.Kind, out, in [][]float32) float64
}

var adamWOfTest = AdamW{0.9, 0.95, 0.1, 0.05, 0.7, 1e-3, 1e-8, 0.1}

var rowLoops = []rowLoop{
	{"exp", 1, 1, func(v kernel.Kind, out, in [][]float32) float64 { expOf(v, out[0], in[0]); return 0 }},
	{"tanh", 1, 1, func(v kernel.Kind, out, in [][]float32) float64 { tanhOf(v, out[0], in[0]); return 0 }},
	{"logistic", 1, 1, func(v kernel.Kind, out, in [][]float32) float64 { logisticOf(v, out[0], in[0]); return 0 }},
	{"silu", 1, 1, func(v kernel.Kind, out, in [][]float32) float64 { siluOf(v, out[0], in[0]); return 0 }},
	{"silu_grad", 1, 2, func(v kernel.Kind, out, in [][]float32) float64 { siluGradOf(v, out[0], in[0], in[1]); return 0 }},
	{"swiglu", 1, 2, func(v kernel.Kind, out, in [][]float32) float64 { swigluOf(v, out[0], in[0], in[1]); return 0 }},
	{"swiglu_grad", 2, 3, func(v kernel.Kind, out, in [][]float32) float64 {
		swigluGradOf(v, out[0], out[1], in[0], in[1], in[2])
		return 0
	}},
	{"max", 0, 1, func(v kernel.Kind, out, in [][]float32) float64 { return float64(MaxOf(v, in[0])) }},
	{"exp_sum", 1, 1, func(v kernel.Kind, out, in [][]float32) float64 { return ExpSumOf(v, out[0], in[0], 1.5) }},
	{"exp_total", 0, 1, func(v kernel.Kind, out, in [][]float32) float64 { return ExpTotalOf(v, in[0], 1.5) }},
	{"scaled", 1, 1, func(v kernel.Kind, out, in [][]float32) float64 { ScaledOf(v, out[0], in[0], 0.7, 3); return 0 }},
	{"adamw", 3, 4, func(v kernel.Kind, out, in [][]float32) float64 {
		square := append([]float32(nil), in[2]...)
		for i := range square {
			square[i] *= square[i]
		}
		adamWOf(v, adamWOfTest, out[0], out[1], out[2], in[0], in[1], square, in[3])
		return 0
	}},
	{"add_scaled", 1, 2, func(v kernel.Kind, out, in [][]float32) float64 { addScaledOf(v, out[0], in[0], in[1], 0.7); return 0 }},
}

func slicesOf(r *rand.Rand, k, n int) [][]float32 {
	x := make([][]float32, k)
	for i := range x {
		x[i] = numbers.Normals[float32](r, n)
	}
	return x
}

func cut(x [][]float32, lo, hi int) [][]float32 {
	y := make([][]float32, len(x))
	for i := range x {
		y[i] = x[i][lo:hi]
	}
	return y
}

// TestVectorLoops compares every length with the loop in Go, and, to the bit, every cut and
// every instruction set with each other.
func TestVectorLoops(t *testing.T) {
	have := numbers.Vectors()
	r := rand.New(rand.NewPCG(23, 24))
	for _, l := range rowLoops {
		for n := range 71 {
			in, want := slicesOf(r, l.in, n), slicesOf(r, l.out, n)
			wantSum := l.do(kernel.Portable, want, in)
			var whole [][]float32
			var sum float64
			for k, v := range have {
				what := fmt.Sprintf("%v %s of %d elements", v, l.name, n)
				out := slicesOf(r, l.out, n+1) // one more, to be left alone
				after := cut(out, n, n+1)
				behind := make([]float32, l.out)
				for i := range behind {
					behind[i] = after[i][0]
				}
				s := l.do(v, cut(out, 0, n), in)
				for i := range behind {
					if after[i][0] != behind[i] {
						t.Fatalf("%s wrote behind the last", what)
					}
				}
				out = cut(out, 0, n)
				for i := range out {
					for j, got := range out[i] {
						w := float64(want[i][j])
						if d := math.Abs(float64(got) - w); !(d <= 1e-6*max(1, math.Abs(w))) || (l.name == "adamw" || l.name == "add_scaled") && d != 0 {
							t.Fatalf("%s: result %d[%d] is %v, want %v", what, i, j, got, w)
						}
					}
				}
				if d := math.Abs(s - wantSum); !(s == wantSum || d <= 1e-6*math.Abs(wantSum)) {
					t.Fatalf("%s returns %v, want %v", what, s, wantSum)
				}
				if k == 0 {
					whole, sum = out, s
				}
				if s != sum {
					t.Fatalf("%s returns %v, want %v as %v does", what, s, sum, have[0])
				}
				for i := range out {
					numbers.SameBits(t, what, out[i], whole[i])
				}
				lo := r.IntN(n + 1)
				hi := lo + r.IntN(n-lo+1)
				part := slicesOf(r, l.out, hi-lo)
				l.do(v, part, cut(in, lo, hi))
				for i := range part {
					numbers.SameBits(t, fmt.Sprintf("%s, of which %d to %d", what, lo, hi), part[i], whole[i][lo:hi])
				}
			}
		}
	}
}

// Sums of vectors have the order that ExpSum states, and ExpTotal gives the same sum.
func TestExpSumOrder(t *testing.T) {
	x := numbers.Normals[float32](rand.New(rand.NewPCG(25, 26)), 1003)
	for _, v := range numbers.Vectors() {
		y := make([]float32, len(x))
		got := ExpSumOf(v, y, x, 0.25)
		var lane [16]float64
		for i, e := range y {
			lane[i%16] += float64(e)
		}
		for _, apart := range []int{8, 4, 2, 1} {
			for i := range apart {
				lane[i] += lane[i+apart]
			}
		}
		total := ExpTotalOf(v, x, 0.25)
		if v != kernel.Portable && got != lane[0] || total != got {
			t.Errorf("%v: sums %v and %v, want %v", v, got, total, lane[0])
		}
	}
}

// NaN anywhere in a row, or nothing but -Inf, makes the softmax NaN; -Inf counts
// for nothing, wherever it stands.
func TestSoftmaxExtremes(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, v := range append(numbers.Vectors(), kernel.Portable) {
		for n := 1; n < 40; n++ {
			for at := range n {
				x, y := make([]float32, n), make([]float32, n)
				for _, c := range []struct{ special, others float32 }{{float32(math.NaN()), 1}, {inf, 1}, {-inf, -inf}} {
					for i := range x {
						x[i] = c.others
					}
					x[at] = c.special
					if sum := ExpSumOf(v, y, x, MaxOf(v, x)); sum == sum {
						t.Fatalf("%v: the sum of %v is %v, want NaN", v, x, sum)
					}
				}
				for i := range x {
					x[i] = -inf
				}
				x[at] = -3000
				if top, sum := MaxOf(v, x), ExpSumOf(v, y, x, -3000); top != -3000 || sum != 1 {
					t.Fatalf("%v: max %v and sum %v of %v, want -3000 and 1", v, top, sum, x)
				}
			}
		}
	}
}

func BenchmarkVectors(b *testing.B) {
	r := rand.New(rand.NewPCG(27, 28))
	for _, l := range rowLoops {
		out, in := slicesOf(r, l.out, 4096), slicesOf(r, l.in, 4096)
		for _, k := range kernel.Available() {
			b.Run(l.name+"/"+k.String(), func(b *testing.B) {
				for b.Loop() {
					l.do(k.Vectors(), out, in)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4096, "ns/element")
			})
		}
	}
}
