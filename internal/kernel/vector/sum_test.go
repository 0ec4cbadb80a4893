package vector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/internal/testing/numbers"
)

func TestSumOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	for n := range 100 {
		x, y := numbers.Special(r, n), numbers.Special(r, n)
		var s, d [8]float64
		for i := range n {
			s[i%8] += float64(x[i])
			d[i%8] += float64(x[i]) * float64(y[i])
		}
		for _, apart := range []int{4, 2, 1} {
			for i := range apart {
				s[i] += s[i+apart]
				d[i] += d[i+apart]
			}
		}
		for name, l := range mathHere() {
			if got := sum(l, x); got != s[0] {
				t.Fatalf("%s: the sum of %d elements is %v, want %v", name, n, got, s[0])
			}
			if got := dot(l, x, y); got != d[0] {
				t.Fatalf("%s: the product of %d elements is %v, want %v", name, n, got, d[0])
			}
		}
	}
	for name, l := range mathHere() {
		if got := sum(l, []float32{float32(math.Copysign(0, -1))}); math.Signbit(got) {
			t.Errorf("%s: 0 + -0 is %v", name, got)
		}
	}
}

// A column has the bits of Sum, however many are beside it.
func TestSumColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(53, 54))
	room := make([]float64, SumRoom)
	for range 300 {
		rows, cols := r.IntN(200), 1+r.IntN(40)
		if r.IntN(10) == 0 {
			cols = 240 + r.IntN(300)
		}
		stride := cols + r.IntN(5)
		x := numbers.Special(r, rows*stride)
		for i := stride; i < len(x); i++ {
			if i/stride%2 == 1 { // neighbours cancel, so that roundings show in the sum
				x[i] = -x[i-stride]
			}
		}
		for name, l := range mathHere() {
			y := make([]float32, cols+1)
			y[cols] = 7
			for i := range room {
				room[i] = math.NaN()
			}
			sumColumns(l, y[:cols], x, rows, stride, room)
			if y[cols] != 7 {
				t.Fatalf("%s: %d columns: another is written", name, cols)
			}
			line := make([]float32, rows)
			for j := range cols {
				for i := range line {
					line[i] = x[i*stride+j]
				}
				if want := float32(sum(nil, line)); y[j] != want {
					t.Fatalf("%s: column %d of %d, %d rows %d apart, is %v, want %v", name, j, cols, rows, stride, y[j], want)
				}
			}
		}
	}
}

func TestExtremes(t *testing.T) {
	r := rand.New(rand.NewPCG(55, 56))
	inf, nan, minus := float32(math.Inf(1)), float32(math.NaN()), float32(math.Copysign(0, -1))
	for n := range 300 {
		for _, x := range [][]float32{numbers.Special(r, n), numbers.Special(r, n, inf, -inf), numbers.Special(r, n, nan), numbers.Special(r, n, -nan, -inf), make([]float32, n)} {
			if n > 0 && x[0] == 0 {
				for i := range x {
					x[i] = []float32{0, minus}[r.IntN(1+n%7)/3%2]
				}
			}
			for name, l := range mathHere() {
				if got, want := largest(l, x), largest(nil, x); !alike(got, want) {
					t.Fatalf("%s: the largest of %v is %v, want %v", name, x, got, want)
				}
				if got, want := smallest(l, x), smallest(nil, x); !alike(got, want) {
					t.Fatalf("%s: the smallest of %v is %v, want %v", name, x, got, want)
				}
			}
		}
	}
}

func TestChoose32(t *testing.T) {
	x, y := samples(1 << 20)
	r := rand.New(rand.NewPCG(57, 58))
	r.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
	word := func(x []float32) []uint32 {
		w := make([]uint32, len(x))
		for i := range x {
			w[i] = math.Float32bits(x[i])
		}
		return w
	}
	for k := range 200 {
		n, lo := k, r.IntN(len(x)-k)
		if k > 196 {
			n, lo = len(x)-k, k
		}
		x, y := x[lo:lo+n], y[lo:lo+n]
		which := make([]bool, n)
		ints := make([]int32, n)
		for i := range which {
			which[i], ints[i] = r.IntN(2) == 1, int32(r.Uint32())
		}
		for name, l := range mathHere() {
			got, want := make([]uint32, n), make([]uint32, n)
			choice(l, got, word(x), word(y), which)
			choice(nil, want, word(x), word(y), which)
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("%s: choice %d of %d is %#x, want %#x", name, i, n, got[i], want[i])
				}
			}
			for c := range comparisons {
				got, want := make([]bool, n), make([]bool, n)
				compare(l, c, got, x, y)
				compare(nil, c, want, x, y)
				for i := range got {
					if got[i] != want[i] {
						t.Fatalf("%s: comparison %d of %v and %v is %v", name, c, x[i], y[i], got[i])
					}
				}
			}
			for what, f := range map[string]func(l *mathLoops, y []int32, x []float32){"int": toInt, "order": order} {
				got, want := make([]int32, n), make([]int32, n)
				f(l, got, x)
				f(nil, want, x)
				for i := range got {
					if got[i] != want[i] {
						t.Fatalf("%s: %s of %v is %d, want %d", name, what, x[i], got[i], want[i])
					}
				}
			}
			f, g := make([]float32, n), make([]float32, n)
			fromInt(l, f, ints)
			fromInt(nil, g, ints)
			numbers.SameBits(t, name+" from int", f, g)
		}
	}
}

func BenchmarkSums(b *testing.B) {
	r := rand.New(rand.NewPCG(63, 64))
	const rows, cols = 256, 512
	x, y, room := numbers.Normals[float32](r, rows*cols), make([]float32, cols), make([]float64, SumRoom)
	for name, l := range mathHere() {
		for what, f := range map[string]func(){
			"sum":     func() { sum(l, x) },
			"columns": func() { sumColumns(l, y, x, rows, cols, room) },
			"largest": func() { largest(l, x) },
		} {
			b.Run(fmt.Sprintf("%s/%s", what, name), func(b *testing.B) {
				for b.Loop() {
					f()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows/cols, "ns/element")
			})
		}
	}
}
