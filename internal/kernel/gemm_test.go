package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

func normals[T Float](r *rand.Rand, n int) []T {
	x := make([]T, n)
	for i := range x {
		x[i] = T(r.NormFloat64())
	}
	return x
}

// sameBits compares as bits, with all NaNs alike.
func sameBits[T Float](t *testing.T, what string, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range want {
		g, w := float64(got[i]), float64(want[i])
		if math.Float64bits(g) != math.Float64bits(w) && !(g != g && w != w) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, g, w)
		}
	}
}

var gemmSizes = [][3]int{
	{0, 3, 2}, {3, 0, 2}, {3, 2, 0}, {1, 1, 1}, {1, 300, 7}, {2, 5, 255}, {3, 4, 256}, {4, 7, 257}, {5, 3, 600},
	{7, 257, 31}, {33, 65, 300}, {40, 260, 20}, {64, 64, 64}, {6, 512, 513},
}

func TestGemmIsItsReference(t *testing.T) {
	t.Run("f32", gemmIsItsReference[float32])
	t.Run("f64", gemmIsItsReference[float64])
}

func gemmIsItsReference[T Float](t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, s := range gemmSizes {
		m, n, k := s[0], s[1], s[2]
		for _, layout := range []struct {
			name               string
			ars, acs, brs, bcs int
			pad                int
		}{
			{"NN", k, 1, n, 1, 0}, {"NT", k, 1, 1, k, 0}, {"TN", 1, m, n, 1, 0}, {"TT", 1, m, 1, k, 0},
			{"padded", k + 3, 1, n + 2, 1, 5}, {"gaps", 2*k + 1, 2, 3*n + 1, 3, 1}, {"repeated", 0, 1, n, 1, 0},
		} {
			a := normals[T](r, max(m, 1)*max(layout.ars, 1)+k*layout.acs+1)
			b := normals[T](r, k*max(layout.brs, 1)+n*layout.bcs+1)
			ldc := n + layout.pad
			c0 := normals[T](r, m*ldc)
			for _, acc := range []bool{false, true} {
				got, want := append([]T(nil), c0...), append([]T(nil), c0...)
				Gemm(m, n, k, a, layout.ars, layout.acs, b, layout.brs, layout.bcs, got, ldc, acc)
				GemmRef(m, n, k, a, layout.ars, layout.acs, b, layout.brs, layout.bcs, want, ldc, acc)
				sameBits(t, fmt.Sprintf("%s m=%d n=%d k=%d acc=%v", layout.name, m, n, k, acc), got, want)
			}
		}
	}
}

// The loop of other machines, which this one may not run.
func TestPortableBlock(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for in := 1; in <= gemmRows; in++ {
		for _, jn := range []int{1, 3, 4, 9, 256} {
			const kn = 19
			stride := jn + 2
			rows, panel := normals[float32](r, gemmRows*kn), normals[float32](r, stride*kn)
			got := normals[float32](r, in*jn)
			want := append([]float32(nil), got...)
			portableBlock(in, jn, kn, rows, panel, stride, got)
			for i := range in {
				for j := range jn {
					for p := range kn {
						want[i*jn+j] += float32(rows[p*gemmRows+i] * panel[p*stride+j])
					}
				}
			}
			sameBits(t, fmt.Sprintf("in=%d jn=%d", in, jn), got, want)
		}
	}
}

func TestGemmAgainstGonum(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, s := range gemmSizes {
		m, n, k := s[0], s[1], s[2]
		if m*n*k == 0 {
			continue
		}
		a, b := normals[float64](r, m*k), normals[float64](r, n*k)
		got, want := make([]float64, m*n), make([]float64, m*n)
		Gemm(m, n, k, a, k, 1, b, 1, k, got, n, false)
		gonum.Implementation{}.Dgemm(blas.NoTrans, blas.Trans, m, n, k, 1, a, k, b, k, 0, want, n)
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-11 {
				t.Fatalf("m=%d n=%d k=%d: element %d is %v, want %v", m, n, k, i, got[i], want[i])
			}
		}
	}
}

// A row does not know how many rows are beside it, nor a column.
func TestGemmRowInvariance(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	const m, n, k = 71, 270, 300
	a, b := normals[float32](r, m*k), normals[float32](r, k*n)
	whole := make([]float32, m*n)
	Gemm(m, n, k, a, k, 1, b, n, 1, whole, n, false)
	for _, in := range []int{1, 2, 3, 5, 40} {
		for i := 0; i+in <= m; i += 13 {
			part := make([]float32, in*n)
			Gemm(in, n, k, a[i*k:], k, 1, b, n, 1, part, n, false)
			sameBits(t, fmt.Sprintf("rows %d to %d", i, i+in), part, whole[i*n:(i+in)*n])
		}
	}
	column := make([]float32, m)
	Gemm(m, 1, k, a, k, 1, b[261:], n, 1, column, 1, false)
	for i := range m {
		sameBits(t, fmt.Sprintf("column 261, row %d", i), column[i:i+1], whole[i*n+261:][:1])
	}
}

func TestGemmNaN(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, n := range []int{1, 4, 9} {
		a := []float32{0, 1, 0, 0}
		b := make([]float32, 2*n)
		for j := range n {
			b[j], b[n+j] = nan, 1
		}
		c := make([]float32, 2*n)
		Gemm(2, n, 2, a, 2, 1, b, n, 1, c, n, false)
		for j, x := range c {
			if x == x {
				t.Fatalf("n=%d: 0·NaN is %v in element %d", n, x, j)
			}
		}
		b[0] = inf
		Gemm(1, 1, 2, a, 2, 1, b, n, 1, c, n, false)
		if c[0] == c[0] {
			t.Fatalf("n=%d: 0·Inf is %v", n, c[0])
		}
	}
}

func BenchmarkGemm(b *testing.B) {
	for _, n := range []int{256, 512, 1024} {
		r := rand.New(rand.NewPCG(1, 1))
		x, y, z := normals[float32](r, n*n), normals[float32](r, n*n), make([]float32, n*n)
		for _, l := range []struct {
			name               string
			ars, acs, brs, bcs int
		}{{"NN", n, 1, n, 1}, {"NT", n, 1, 1, n}, {"TN", 1, n, n, 1}} {
			b.Run(fmt.Sprintf("%s/%d", l.name, n), func(b *testing.B) {
				for b.Loop() {
					Gemm(n, n, n, x, l.ars, l.acs, y, l.brs, l.bcs, z, n, false)
				}
				b.ReportMetric(2*math.Pow(float64(n), 3)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
		b.Run(fmt.Sprintf("gonum/%d", n), func(b *testing.B) {
			for b.Loop() {
				gonum.Implementation{}.Sgemm(blas.NoTrans, blas.NoTrans, n, n, n, 1, x, n, y, n, 0, z, n)
			}
			b.ReportMetric(2*math.Pow(float64(n), 3)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
