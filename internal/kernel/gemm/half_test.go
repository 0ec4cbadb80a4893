package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// halfKernels returns the kernels of this processor, and kernels whose products of
// bf16 are models of instructions that it may not have. There are models without and
// with copying loops in assembly.
func halfKernels() []kernels {
	have := available()
	dot := &halfSet{name: "vdpbf16ps", step: dotStep, deep: dotDeep, rows: 128, copy: 4 * dotDeep, most: 8, wide: tileVecs * pairLanes}
	amx := &halfSet{name: "tdpbf16ps", step: amxStep, deep: amxDeep, copy: amxDeep, most: 2 * squareRows, wide: 2 * pairLanes, squares: true}
	for _, s := range []*halfSet{dot, amx} {
		for _, s := range []*halfSet{s, withCopies(*s)} {
			have = append(have, kernels{name: "model", f32: have[0].f32, bf16: modelTiles(s)})
		}
	}
	return have
}

// halfProduct is a product with 16-bit arguments.
type halfProduct[E Half, R Result] struct {
	m, n, k            int
	ars, acs, brs, bcs int
	ldc                int
	acc                bool
	a, b               []E
	c                  []R
}

func (p halfProduct[E, R]) String() string {
	return fmt.Sprintf("%T %T m=%d n=%d k=%d A=%d,%d B=%d,%d ldc=%d acc=%v", p.a, p.c, p.m, p.n, p.k, p.ars, p.acs, p.brs, p.bcs, p.ldc, p.acc)
}

func narrowed[R Result](x []float32) []R {
	y := make([]R, len(x))
	if z, ok := any(y).([]float32); ok {
		copy(z, x)
	}
	narrow(y, x)
	return y
}

func widened[R Result](x []R) []float32 {
	y := make([]float32, len(x))
	if z, ok := any(x).([]float32); ok {
		copy(y, z)
	}
	widen(y, x)
	return y
}

func newHalfProduct[E Half, R Result](r *rand.Rand, m, n, k int) halfProduct[E, R] {
	p := newProduct[float32](r, m, n, k)
	return halfProduct[E, R]{m, n, k, p.ars, p.acs, p.brs, p.bcs, p.ldc, p.acc, narrowed[E](p.a), narrowed[E](p.b), narrowed[R](p.c)}
}

// by returns all of C after the kernels k have multiplied.
func (p halfProduct[E, R]) by(k kernels) []float32 {
	c := append([]R(nil), p.c...)
	multiplyHalf(nil, k, p.m, p.n, p.k, p.a, p.ars, p.acs, Matrix[E]{X: p.b, Row: p.brs, Col: p.bcs}, c, p.ldc, p.acc)
	return widened(c)
}

// want returns C by the contract of the kernels.
func (p halfProduct[E, R]) want(k kernels) []float32 {
	w := product[float32]{p.m, p.n, p.k, p.ars, p.acs, p.brs, p.bcs, p.ldc, p.acc, widened(p.a), widened(p.b), widened(p.c)}
	brain, ok := any(p).(interface {
		pairs(i, q, j int) (x, y uint32)
	})
	if _, is := any(p.a).([]array.Brain); !ok || !is || k.bf16 == nil {
		c := w.by(k)
		return widened(narrowed[R](c))
	}
	c := append([]float32(nil), w.c...)
	for i := range p.m {
		for j := range p.n {
			y := &c[i*p.ldc+j]
			if !p.acc {
				*y = 0
			}
			if k.bf16.squares {
				for q := 0; 2*q < p.k; q += squarePairs {
					*y = tileModel(*y, squarePairs, func(t int) (uint32, uint32) { return brain.pairs(i, q+t, j) })
				}
				continue
			}
			for k0 := 0; k0 < p.k; k0 += 512 {
				s := float32(0)
				for q := k0; q < min(k0+512, p.k); q += 2 {
					x, z := brain.pairs(i, q/2, j)
					s = dotModel(s, x, z)
				}
				*y += s
			}
		}
	}
	return widened(narrowed[R](c))
}

// pairs returns pair q of row i of A and of column j of B.
func (p halfProduct[E, R]) pairs(i, q, j int) (x, y uint32) {
	a, b := any(p.a).([]array.Brain), any(p.b).([]array.Brain)
	if 2*q < p.k {
		x, y = uint32(a[i*p.ars+2*q*p.acs]), uint32(b[2*q*p.brs+j*p.bcs])
	}
	if 2*q+1 < p.k {
		x, y = x|uint32(a[i*p.ars+(2*q+1)*p.acs])<<16, y|uint32(b[(2*q+1)*p.brs+j*p.bcs])<<16
	}
	return x, y
}

// Every kernel's result is the contract's, bit for bit, and nothing beside C is
// written.
func TestGemmHalfIsItsContract(t *testing.T) {
	t.Run("bf16", halfIsItsContract[array.Brain, array.Brain])
	t.Run("bf16 to f32", halfIsItsContract[array.Brain, float32])
	t.Run("f16", halfIsItsContract[array.Half, array.Half])
	t.Run("f16 to f32", halfIsItsContract[array.Half, float32])
	t.Run("bf16 to f16", halfIsItsContract[array.Brain, array.Half])
}

func halfIsItsContract[E Half, R Result](t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	sizes := append([][3]int{
		{1, 40, 513}, {2, 70, 1030}, {3, 33, 511}, {4, 96, 512}, {1, 600, 3}, {8, 64, 513}, {13, 45, 515}, {17, 50, 2100}, {40, 33, 1025}, {33, 17, 33},
		{16, 16, 32}, {64, 96, 64}, {48, 32, 31}, {9, 1100, 70}, {300, 20, 40},
	}, gemmSizes...)
	for range 60 {
		sizes = append(sizes, [3]int{r.IntN(71), r.IntN(71), r.IntN(71)})
	}
	for _, s := range sizes {
		p := newHalfProduct[E, R](r, s[0], s[1], s[2])
		p.check(t)
		if p.m <= 16 && p.n*p.k > 0 { // few rows of A, and B row by row, are multiplied in another way
			p.brs, p.bcs = p.n+r.IntN(3), 1
			p.b = narrowed[E](numbers.Normals[float32](r, (p.k-1)*p.brs+p.n))
			p.check(t)
		}
	}
}

// modelled is the most products that models compute: they take a microsecond for what
// engines do in a nanosecond.
const modelled = 1 << 16

// check compares the results of all kernels for p with their contracts.
func (p halfProduct[E, R]) check(t *testing.T) {
	t.Helper()
	wants := map[string][]float32{}
	for _, k := range halfKernels() {
		if k.name == "model" && p.m*p.n*p.k > modelled {
			continue
		}
		contract := k.name
		if k.bf16 != nil {
			contract = strings.TrimSuffix(k.half(), " model")
		}
		if wants[contract] == nil {
			wants[contract] = p.want(k)
		}
		numbers.SameBits(t, k.name+" "+k.half()+" "+p.String(), p.by(k), wants[contract])
	}
}

// Extremes are numbers that some engines take as zeros or that overflow, infinities and NaNs.
func TestGemmHalfOfExtremes(t *testing.T) {
	t.Run("bf16", halfOfExtremes[array.Brain, float32])
	t.Run("bf16 to bf16", halfOfExtremes[array.Brain, array.Brain])
	t.Run("f16", halfOfExtremes[array.Half, float32])
}

func halfOfExtremes[E Half, R Result](t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	for i := range 60 {
		p := newHalfProduct[E, R](r, 1+r.IntN(20), 1+r.IntN(60), 1+r.IntN(40))
		extremes(r, i, p.a, p.b)
		p.check(t)
	}
}

// extremes puts such numbers in some places of xs, in fewer where i is odd.
func extremes[E Half](r *rand.Rand, i int, xs ...[]E) {
	for _, x := range xs {
		for j := range x {
			switch r.IntN(3 + 6*(i%2)) {
			case 0: // any sign, exponent and fraction: few are not finite
				x[j] = E(r.Uint32())
			case 1: // products of two of these have bits on both sides of the smallest normal number
				x[j] = E(r.IntN(2)<<15 | (55+r.IntN(20))<<7 | r.IntN(128))
			case 2:
				x[j] = E(r.IntN(2)<<15 | r.IntN(200))
			}
		}
	}
}

// Streams, which multiply few rows, have the bits of tiles, of extremes too.
func TestGemmHalfStreams(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 36))
	for i := range 80 {
		p := newHalfProduct[array.Brain, float32](r, 1+i%streamRows, 128+r.IntN(300), 1+r.IntN(300))
		p.brs, p.bcs = p.n, 1
		p.b = narrowed[array.Brain](numbers.Normals[float32](r, p.k*p.n))
		if i >= 20 {
			extremes(r, i, p.a, p.b)
		}
		for _, k := range available() {
			if k.bf16 == nil || k.bf16.streams[0] == nil {
				continue
			}
			tiles, s := k, *k.bf16
			s.streams = [3]func(*byte){}
			tiles.bf16 = &s
			numbers.SameBits(t, k.name+" "+k.half()+" "+p.String(), p.by(k), p.by(tiles))
		}
	}
}

// A row of C does not depend on how many rows are beside it, nor does a column.
func TestGemmHalfCuts(t *testing.T) {
	t.Run("bf16", halfCuts[array.Brain, array.Brain])
	t.Run("f16 to f32", halfCuts[array.Half, float32])
}

func halfCuts[E Half, R Result](t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	for i := range 12 {
		sizes := [3]int{1 + r.IntN(300), 1 + r.IntN(300), 1 + r.IntN(1200)}
		if i%2 > 0 {
			sizes = [3]int{1 + r.IntN(40), 1 + r.IntN(40), 1 + r.IntN(40)}
		}
		p := newHalfProduct[E, R](r, sizes[0], sizes[1], sizes[2])
		for _, k := range halfKernels() {
			if k.name == "model" && p.m*p.n*p.k > modelled {
				continue
			}
			whole := p.by(k)
			got := append([]float32(nil), whole...)
			for i := 0; i < p.m; {
				m := min(1+r.IntN(1+r.IntN(100)), p.m-i)
				for j := 0; j < p.n; {
					n := min(1+r.IntN(1+r.IntN(200)), p.n-j)
					part := p
					part.m, part.n = m, n
					part.a, part.b, part.c = p.a[i*p.ars:], p.b[j*p.bcs:], p.c[i*p.ldc+j:]
					c := part.by(k)
					for r := range m {
						copy(got[(i+r)*p.ldc+j:][:n], c[r*p.ldc:])
					}
					j += n
				}
				i += m
			}
			numbers.SameBits(t, k.name+" "+k.half()+" "+p.String(), got, whole)
		}
	}
}

// Sums of integers below 2^24 are exact, in every engine.
func TestGemmHalfOfIntegers(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 28))
	for _, s := range append([][3]int{{130, 100, 1300}, {1, 200, 600}}, gemmSizes...) {
		p := newHalfProduct[array.Brain, float32](r, s[0], s[1], s[2])
		for _, x := range [][]array.Brain{p.a, p.b} {
			for i := range x {
				x[i] = array.BrainOf(float32(r.IntN(201) - 100))
			}
		}
		for i := range p.c {
			p.c[i] = float32(r.IntN(201) - 100)
		}
		want := product[float32]{p.m, p.n, p.k, p.ars, p.acs, p.brs, p.bcs, p.ldc, p.acc, widened(p.a), widened(p.b), p.c}.want(false)
		for _, k := range halfKernels() {
			if k.name != "model" || p.m*p.n*p.k <= modelled {
				numbers.SameBits(t, k.name+" "+k.half()+" "+p.String(), p.by(k), want)
			}
		}
	}
}

// A NaN or an infinity reaches its row or column, and 0·NaN is NaN.
func TestGemmHalfNaN(t *testing.T) {
	nan, inf := array.BrainOf(float32(math.NaN())), array.BrainOf(float32(math.Inf(1)))
	for _, k := range halfKernels() {
		for _, n := range []int{1, 9, 16, 50} {
			for _, m := range []int{1, 2, 5, 9, 33} {
				for _, at := range []int{0, 1, 2} { // an even place, an odd one, and the last of three
					p := halfProduct[array.Brain, array.Brain]{m: m, n: n, k: 3, ars: 3, acs: 1, brs: n, bcs: 1, ldc: n,
						a: make([]array.Brain, 3*m), b: make([]array.Brain, 3*n), c: make([]array.Brain, m*n)}
					p.c[0] = nan // is overwritten
					p.b[at*n+n-1] = inf
					p.a[3*(m-1)+at] = nan
					for j, x := range p.by(k) {
						if bad := j%n == n-1 || j/n == m-1; (x != x) != bad || !bad && x != 0 {
							t.Fatalf("%s %s m=%d n=%d: element %d is %v with Inf in the last column and NaN in the last row", k.name, k.half(), m, n, j, x)
						}
					}
				}
			}
		}
	}
}

// Results are compared with float64 too, not only with the models.
func TestGemmHalfErrorBound(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 30))
	for _, s := range [][3]int{{5, 40, 1100}, {70, 60, 600}, {1, 100, 2000}, {20, 20, 30}} {
		p := newHalfProduct[array.Brain, float32](r, s[0], s[1], s[2])
		a, b := widened(p.a), widened(p.b)
		for _, k := range halfKernels() {
			if k.name == "model" && p.m*p.n*p.k > modelled {
				continue
			}
			got := p.by(k)
			for i := range p.m {
				for j := range p.n {
					var want, size float64
					if p.acc {
						want = float64(p.c[i*p.ldc+j])
						size = math.Abs(want)
					}
					for q := range p.k {
						x := float64(a[i*p.ars+q*p.acs]) * float64(b[q*p.brs+j*p.bcs])
						want, size = want+x, size+math.Abs(x)
					}
					if d := math.Abs(float64(got[i*p.ldc+j]) - want); !(d <= float64(p.k+8)*0x1p-24*size) {
						t.Fatalf("%s %s %s: element %d,%d is wrong by %v", k.name, k.half(), p, i, j, d)
					}
				}
			}
		}
	}
}

func TestGemmHalfIsWhatWasSelected(t *testing.T) {
	chosen := selected()
	r := rand.New(rand.NewPCG(31, 32))
	p := newHalfProduct[array.Brain, array.Brain](r, 20, 70, 1300)
	got := append([]array.Brain(nil), p.c...)
	MultiplyHalf(p.m, p.n, p.k, p.a, p.ars, p.acs, p.b, p.brs, p.bcs, got, p.ldc, p.acc)
	numbers.SameBits(t, chosen.name, widened(got), p.by(chosen))
	if got := SelectedHalf(); got != chosen.half() {
		t.Errorf("SelectedHalf is %q, want %q", got, chosen.half())
	}
	engines := map[string]string{}
	for _, k := range available() {
		engines[k.name] = k.half()
		if k.name == "amx" != (k.half() == "tdpbf16ps") {
			t.Errorf("kernels %s multiply bf16 with %s", k.name, k.half())
		}
	}
	if engines["portable"] != "f32" {
		t.Errorf("the portable kernels multiply bf16 with %s, want f32", engines["portable"])
	}
}
