package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// product is a product's sizes, strides and arguments.
type product[T kernel.Float] struct {
	m, n, k            int
	ars, acs, brs, bcs int
	ldc                int
	acc                bool
	a, b, c            []T
}

func (p product[T]) String() string {
	return fmt.Sprintf("f%d m=%d n=%d k=%d A=%d,%d B=%d,%d ldc=%d acc=%v", 8*unsafe.Sizeof(T(0)), p.m, p.n, p.k, p.ars, p.acs, p.brs, p.bcs, p.ldc, p.acc)
}

// layouts returns both strides of one of the ways to lay out a matrix of rows and columns.
func layouts(r *rand.Rand, rows, cols int) (rs, cs int) {
	rows, cols = max(rows, 1), max(cols, 1)
	switch r.IntN(7) {
	case 0, 1:
		return cols, 1
	case 2, 3:
		return 1, rows
	case 4:
		return cols + 3, 1
	case 5:
		return 2*cols + 1, 2
	}
	return 0, 1 // one row, repeated
}

// newProduct returns a product whose slices end with the last element and begin at any
// alignment.
func newProduct[T kernel.Float](r *rand.Rand, m, n, k int) product[T] {
	p := product[T]{m: m, n: n, k: k, ldc: n + r.IntN(2)*r.IntN(6), acc: r.IntN(2) == 0}
	p.ars, p.acs = layouts(r, m, k)
	p.brs, p.bcs = layouts(r, k, n)
	fill := func(rows, cols, rs, cs int) []T {
		if rows == 0 || cols == 0 {
			return nil
		}
		skip := r.IntN(3)
		return numbers.Normals[T](r, skip+(rows-1)*rs+(cols-1)*cs+1)[skip:]
	}
	p.a, p.b, p.c = fill(m, k, p.ars, p.acs), fill(k, n, p.brs, p.bcs), fill(m, n, p.ldc, 1)
	return p
}

// by returns all of C after the kernels k have multiplied.
func (p product[T]) by(k kernels) []T {
	c := append([]T(nil), p.c...)
	w := workspaceOf[T](nil)
	defer w.release()
	w.multiply(k.set(unsafe.Sizeof(T(0))), p.m, p.n, p.k, p.a, p.ars, p.acs, p.b, p.brs, p.bcs, Panels{}, c, p.ldc, p.acc)
	return c
}

// want returns C by the contract of kernels that fuse, or of those that round products.
func (p product[T]) want(fuse bool) []T {
	c := append([]T(nil), p.c...)
	for i := range p.m {
		for j := range p.n {
			var sum T
			if p.acc {
				sum = c[i*p.ldc+j]
			}
			for k0 := 0; k0 < p.k; k0 += gemmDeep {
				var s T
				for q := k0; q < min(k0+gemmDeep, p.k); q++ {
					if x, y := p.a[i*p.ars+q*p.acs], p.b[q*p.brs+j*p.bcs]; fuse {
						s = fma(x, y, s)
					} else {
						s += T(x * y)
					}
				}
				sum += s
			}
			c[i*p.ldc+j] = sum
		}
	}
	return c
}

// fma is x·y + z with one rounding. For float32 the product is exact in float64;
// the sum is rounded to odd there, so that rounding it again to 24 bits is as if
// it had been exact (Boldo and Melquiond, "Emulation of FMA and correctly rounded
// sums", 2008).
func fma[T kernel.Float](x, y, z T) T {
	if unsafe.Sizeof(x) == 8 {
		return T(math.FMA(float64(x), float64(y), float64(z)))
	}
	a, b := float64(x)*float64(y), float64(z)
	s := a + b
	b1 := s - a
	e := (a - (s - b1)) + (b - b1)
	if bits := math.Float64bits(s); e != 0 && e == e && bits&1 == 0 {
		if (e > 0) == (s > 0) {
			s = math.Float64frombits(bits + 1)
		} else {
			s = math.Float64frombits(bits - 1)
		}
	}
	return T(s)
}

var gemmSizes = [][3]int{
	{0, 3, 2}, {3, 0, 2}, {3, 2, 0}, {1, 1, 1}, {1, 300, 7}, {2, 5, 255}, {3, 4, 256}, {4, 7, 257}, {5, 3, 600}, {2, 4100, 3},
	{7, 257, 31}, {33, 65, 300}, {40, 260, 20}, {64, 64, 64}, {6, 512, 513}, {130, 49, 258}, {150, 20, 1300}, {5, 20, 1100}, {3, 1100, 260}, {70, 1100, 5}, {260, 50, 9},
}

// Every kernel's result is the contract's, bit for bit, and nothing beside C is
// written.
func TestGemmIsItsContract(t *testing.T) {
	t.Run("f32", gemmIsItsContract[float32])
	t.Run("f64", gemmIsItsContract[float64])
}

func gemmIsItsContract[T kernel.Float](t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var sizes [][3]int
	rounds := 8 // each with other layouts
	if testing.Short() {
		rounds = 2
	}
	for range rounds {
		sizes = append(sizes, gemmSizes...)
	}
	for range 300 {
		sizes = append(sizes, [3]int{r.IntN(71), r.IntN(71), r.IntN(71)})
	}
	for _, s := range sizes {
		p := newProduct[T](r, s[0], s[1], s[2])
		fused, rounded := p.want(true), p.want(false)
		for _, k := range available() {
			want := fused
			if k.f32 == nil {
				want = rounded
			}
			numbers.SameBits(t, k.name+" "+p.String(), p.by(k), want)
		}
	}
}

func TestGemmErrorBound(t *testing.T) {
	t.Run("f32", func(t *testing.T) { gemmErrorBound[float32](t, 0x1p-24) })
	t.Run("f64", func(t *testing.T) { gemmErrorBound[float64](t, 0x1p-53) })
}

func gemmErrorBound[T kernel.Float](t *testing.T, eps float64) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, s := range gemmSizes {
		p := newProduct[T](r, s[0], s[1], s[2])
		if p.m*p.n*p.k == 0 {
			continue
		}
		// The same matrices without gaps, and their absolute values.
		a, b, c := make([]float64, p.m*p.k), make([]float64, p.k*p.n), make([]float64, p.m*p.n)
		aa, ab, ac := make([]float64, len(a)), make([]float64, len(b)), make([]float64, len(c))
		dense := func(x, abs []float64, y []T, cols, rs, cs int) {
			for i := range x {
				x[i] = float64(y[i/cols*rs+i%cols*cs])
				abs[i] = math.Abs(x[i])
			}
		}
		dense(a, aa, p.a, p.k, p.ars, p.acs)
		dense(b, ab, p.b, p.n, p.brs, p.bcs)
		dense(c, ac, p.c, p.n, p.ldc, 1)
		beta := 0.0
		if p.acc {
			beta = 1
		}
		var blas64 gonum.Implementation
		blas64.Dgemm(blas.NoTrans, blas.NoTrans, p.m, p.n, p.k, 1, a, p.k, b, p.n, beta, c, p.n)
		blas64.Dgemm(blas.NoTrans, blas.NoTrans, p.m, p.n, p.k, 1, aa, p.k, ab, p.n, beta, ac, p.n)
		for _, k := range available() {
			got := p.by(k)
			for i, want := range c {
				g, bound := float64(got[i/p.n*p.ldc+i%p.n]), 2*float64(p.k+2)*eps*ac[i]
				if !(math.Abs(g-want) <= bound) {
					t.Fatalf("%s %s: element %d is %v, want %v ± %v", k.name, p, i, g, want, bound)
				}
			}
		}
	}
}

// Sums of integers below 2^24 are exact, however they are rounded.
func TestGemmOfIntegers(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, s := range gemmSizes {
		p := newProduct[float32](r, s[0], s[1], s[2])
		for _, x := range [][]float32{p.a, p.b, p.c} {
			for i := range x {
				x[i] = float32(r.IntN(201) - 100)
			}
		}
		for _, k := range available() {
			numbers.SameBits(t, k.name+" "+p.String(), p.by(k), p.want(false))
		}
	}
}

// A row of C does not depend on how many rows are beside it, nor does a column.
func TestGemmCuts(t *testing.T) {
	t.Run("f32", gemmCuts[float32])
	t.Run("f64", gemmCuts[float64])
}

func gemmCuts[T kernel.Float](t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 12 {
		p := newProduct[T](r, 1+r.IntN(300), 1+r.IntN(300), 1+r.IntN(600))
		for _, k := range available() {
			whole := p.by(k)
			cut := p
			cut.c = append([]T(nil), p.c...)
			for i := 0; i < p.m; {
				m := min(1+r.IntN(1+r.IntN(100)), p.m-i)
				for j := 0; j < p.n; {
					n := min(1+r.IntN(1+r.IntN(200)), p.n-j)
					part := p
					part.m, part.n = m, n
					part.a, part.b, part.c = p.a[i*p.ars:], p.b[j*p.bcs:], cut.c[i*p.ldc+j:]
					copy(part.c, part.by(k))
					j += n
				}
				i += m
			}
			numbers.SameBits(t, k.name+" "+p.String(), cut.c, whole)
		}
	}
}

func TestGemmNaN(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, k := range available() {
		for _, n := range []int{1, 4, 9, 16, 50} {
			for _, m := range []int{1, 2, 5, 9} {
				p := product[float32]{m: m, n: n, k: 2, ars: 2, acs: 1, brs: n, bcs: 1, ldc: n,
					a: make([]float32, 2*m), b: make([]float32, 2*n), c: make([]float32, m*n)}
				for i := range m {
					p.a[2*i+1] = 1
				}
				for j := range n {
					p.b[j], p.b[n+j] = nan, 1
				}
				p.c[0] = nan // is overwritten
				for j, x := range p.by(k) {
					if x == x {
						t.Fatalf("%s m=%d n=%d: 0·NaN is %v in element %d", k.name, m, n, x, j)
					}
				}
				clear(p.b)
				p.b[n-1] = inf
				p.a[2*(m-1)+1] = nan
				for j, x := range p.by(k) {
					if bad := j%n == n-1 || j/n == m-1; (x != x) != bad || !bad && x != 0 {
						t.Fatalf("%s m=%d n=%d: element %d is %v with Inf in the last column and NaN in the last row", k.name, m, n, j, x)
					}
				}
			}
		}
	}
}

// A single NaN in A or B reaches its row or column, and no other element changes.
func TestGemmNaNStaysInItsRow(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for range 60 {
		p := newProduct[float32](r, 1+r.IntN(30), 1+r.IntN(120), 1+r.IntN(300))
		p.a[r.IntN(len(p.a))] = float32(math.NaN())
		p.b[r.IntN(len(p.b))] = float32(math.Inf(-1))
		want := p.want(true)
		for _, k := range available() {
			if k.f32 != nil {
				numbers.SameBits(t, k.name+" "+p.String(), p.by(k), want)
			}
		}
	}
}

// A sum is never -0, because it starts at 0.
func TestGemmZero(t *testing.T) {
	for _, k := range available() {
		for _, n := range []int{1, 48, 64} {
			for _, m := range []int{1, 8} {
				p := product[float32]{m: m, n: n, k: 1, ars: 1, acs: 1, brs: n, bcs: 1, ldc: n, a: make([]float32, m), b: make([]float32, n), c: make([]float32, m*n)}
				for i := range p.a {
					p.a[i] = 1e-30
				}
				for j := range p.b {
					p.b[j] = -1e-30
				}
				numbers.SameBits(t, fmt.Sprintf("%s m=%d n=%d", k.name, m, n), p.by(k), make([]float32, m*n))
			}
		}
	}
}

func TestMultiplyIsWhatWasSelected(t *testing.T) {
	chosen, err := kernel.Selected()
	require.NoError(t, err)
	p := newProduct[float32](rand.New(rand.NewPCG(15, 16)), 20, 70, 300)
	got := append([]float32(nil), p.c...)
	Multiply(p.m, p.n, p.k, p.a, p.ars, p.acs, p.b, p.brs, p.bcs, got, p.ldc, p.acc)
	numbers.SameBits(t, chosen.String(), got, p.by(kernelsOf(chosen)))
}

// available returns the kernels of this processor, the best first.
func available() []kernels {
	var all []kernels
	for _, k := range kernel.Available() {
		all = append(all, kernelsOf(k))
	}
	return all
}

// TestPortableBlock tests the loop of other architectures, which products here may not use.
func TestPortableBlock(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for in := 1; in <= gemmRows; in++ {
		for _, jn := range []int{1, 3, 4, 9, 256} {
			const kn = 19
			stride := jn + 2
			rows, panel := numbers.Normals[float32](r, gemmRows*kn), numbers.Normals[float32](r, stride*kn)
			got := numbers.Normals[float32](r, in*jn)
			want := append([]float32(nil), got...)
			portableBlock(in, jn, kn, rows, panel, stride, got)
			for i := range in {
				for j := range jn {
					for p := range kn {
						want[i*jn+j] += float32(rows[p*gemmRows+i] * panel[p*stride+j])
					}
				}
			}
			numbers.SameBits(t, fmt.Sprintf("in=%d jn=%d", in, jn), got, want)
		}
	}
}

// Rows of A that are far apart have the bits of rows that are not, whether the second-level
// cache is large or small.
func TestGemmFarRows(t *testing.T) {
	r := rand.New(rand.NewPCG(37, 38))
	p := newProduct[float32](r, 139, 100, 300)
	p.ars, p.acs = farRows/4+5, 1
	p.a = numbers.Normals[float32](r, (p.m-1)*p.ars+p.k)
	want := p.want(true)
	for _, k := range available() {
		for _, near := range []bool{false, true} {
			if k.f32 == nil {
				continue
			}
			s := *k.f32
			s.near = near
			k.f32 = &s
			numbers.SameBits(t, fmt.Sprintf("%s near=%v %s", k.name, near, p), p.by(k), want)
		}
	}
}
