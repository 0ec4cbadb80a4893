package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

func partsOf(x []float32, low bool) Parts {
	p := Parts{High: make([]array.Brain, len(x))}
	if low {
		p.Low = make([]array.Brain, len(x))
	}
	p.Split(x)
	return p
}

// Parts are what Split says, for numbers of all kinds and lengths that are no multiples of a vector.
func TestSplit(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	special := []float32{0, float32(math.Copysign(0, -1)), 1e-45, -1e-40, 0x1p-126, math.MaxFloat32, -math.MaxFloat32, 0x1.fep127, 0x1.ff0002p127,
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1 + 0x1p-8, 1 + 0x1p-9, 1 + 3*0x1p-9}
	for _, n := range []int{0, 1, 3, 5, 63, 512, 513, 1500} {
		x := numbers.Normals[float32](r, n)
		for i := range x {
			switch r.IntN(4) {
			case 0:
				x[i] = math.Float32frombits(r.Uint32())
			case 1:
				if i/100%2 == 0 { // a chunk without them, too
					x[i] = special[r.IntN(len(special))]
				}
			}
		}
		p, one := partsOf(x, true), partsOf(x, false)
		for i, v := range x {
			high, low := p.High[i].Float32(), p.Low[i].Float32()
			if one.Low != nil || one.High[i] != p.High[i] {
				t.Fatalf("%v alone is %v, want %v", v, one.High[i].Float32(), high)
			}
			if v-v != 0 {
				if math.Float32bits(high) != math.Float32bits(array.BrainOf(v).Float32()) || low != 0 {
					t.Fatalf("%v has parts %v and %v, want it and 0", v, high, low)
				}
				continue
			}
			most := max(0x1p-16*math.Abs(float64(v)), 0x1p-134)
			if array.BrainOf(v).Float32() == high {
				if want := array.BrainOf(v - high).Float32(); low != want {
					t.Fatalf("the low part of %v is %v, want %v", v, low, want)
				}
			} else {
				most *= 2
				if math.Abs(float64(high)) != 0x1.fep127 {
					t.Fatalf("the high part of %v is %v, want that of the largest numbers", v, high)
				}
			}
			if off := math.Abs(float64(v) - float64(high) - float64(low)); !(off <= most) {
				t.Fatalf("%v is off by %v from its parts %v and %v, want at most %v", v, off, high, low, most)
			}
		}
	}
}

// A product of parts is the three products of bf16 in order, or one, and within the bounds that
// MultiplyParts states, against float64.
func TestMultiplyParts(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 44))
	for _, s := range [][3]int{{1, 1, 1}, {1, 40, 700}, {3, 300, 64}, {5, 33, 1100}, {70, 60, 600}, {40, 9, 0}, {130, 70, 2100}} {
		m, n, k := s[0], s[1], s[2]
		for _, positive := range []bool{false, true} { // numbers of one sign show what is left out
			x, y := numbers.Normals[float32](r, m*k), numbers.Normals[float32](r, k*n)
			for _, v := range [][]float32{x, y} {
				for i := range v {
					v[i] *= float32(math.Exp(2 * r.NormFloat64()))
					if positive {
						v[i] = float32(math.Abs(float64(v[i])))
					}
				}
			}
			worst := map[bool]float64{}
			for _, low := range []bool{true, false} {
				a, b := partsOf(x, low), partsOf(y, low)
				got, want := numbers.Normals[float32](r, m*(n+1)), make([]float32, m*(n+1))
				between := append([]float32(nil), got...)
				MultiplyParts(nil, m, n, k, a, k, 1, b, n, 1, got, n+1)
				if low {
					MultiplyHalf(m, n, k, a.Low, k, 1, b.High, n, 1, want, n+1, false)
					MultiplyHalf(m, n, k, a.High, k, 1, b.Low, n, 1, want, n+1, true)
				}
				MultiplyHalf(m, n, k, a.High, k, 1, b.High, n, 1, want, n+1, low)
				bound := 0x1p-7 + 0x1p-16 + float64(k+8)*0x1p-24
				if low {
					bound = 3*0x1p-16 + 0x1p-30 + float64(3*k+8)*0x1p-24
				}
				for i := range m {
					want[i*(n+1)+n] = between[i*(n+1)+n]
					for j := range n {
						sum, size := 0.0, 0.0
						for p := range k {
							v := float64(x[i*k+p]) * float64(y[p*n+j])
							sum, size = sum+v, size+math.Abs(v)
						}
						off := math.Abs(float64(got[i*(n+1)+j]) - sum)
						if !(off <= bound*size) {
							t.Fatalf("%v low=%v: element %d,%d is off by %v of %v, want at most %v", s, low, i, j, off, size, bound*size)
						}
						if size > 0 {
							worst[low] = max(worst[low], off/size)
						}
					}
				}
				numbers.SameBits(t, "parts", got, want)
			}
			if k > 1 && m*n > 100 && !(worst[true] < worst[false]/20) {
				t.Errorf("%v: off by %v of the size with low parts and %v without, want 20 times less", s, worst[true], worst[false])
			}
		}
	}
}

// Finite numbers that bf16 cannot hold have finite products. Products of an infinity are not finite: most are NaN.
func TestMultiplyPartsOfExtremes(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct{ x, y, want float32 }{
		{math.MaxFloat32, 0.5, 0.5 * math.MaxFloat32}, {inf, 2, inf}, {-inf, 2.001, inf}, {inf, 0, float32(math.NaN())}, {float32(math.NaN()), 1, float32(math.NaN())},
	} {
		got := []float32{0}
		MultiplyParts(nil, 1, 1, 1, partsOf([]float32{c.x}, true), 1, 1, partsOf([]float32{c.y}, true), 1, 1, got, 1)
		if near := c.want-c.want != 0 && got[0]-got[0] != 0 || math.Abs(float64(got[0]/c.want)-1) < 0x1p-14; !near {
			t.Errorf("%v·%v is %v, want %v", c.x, c.y, got[0], c.want)
		}
	}
}

// BenchmarkParts measures products of f32 with each precision on one core, splitting included.
func BenchmarkParts(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{512, 1024, 2048} {
		x, y, z := numbers.Normals[float32](r, n*n), numbers.Normals[float32](r, n*n), make([]float32, n*n)
		run := func(name string, f func()) {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				for b.Loop() {
					f()
				}
				b.ReportMetric(2*float64(n)*float64(n)*float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
		run("highest", func() { Multiply(n, n, n, x, n, 1, y, n, 1, z, n, false) })
		for _, low := range []bool{true, false} {
			name := map[bool]string{true: "high", false: "default"}[low]
			a, c := partsOf(x, low), partsOf(y, low)
			run(name, func() {
				a.Split(x)
				c.Split(y)
				MultiplyParts(nil, n, n, n, a, n, 1, c, n, 1, z, n)
			})
		}
	}
}
