package depthwise

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// sequence is the data of a sequence of n rows, with rows wider than the block.
type sequence[T kernel.Float] struct {
	Block[T]
	n, stride int
	x         Rows[T]
	dy, dlast kernel.Rows[T]
}

func newSequence[T kernel.Float](k, c, n int, bias, silu bool) *sequence[T] {
	r := rand.New(rand.NewPCG(uint64(k*c), uint64(n)))
	some := func(n int) []T {
		x := make([]T, n)
		for i := range x {
			x[i] = T(2*r.Float64() - 1)
		}
		return x
	}
	s := &sequence[T]{Block: Block[T]{K: k, C: c, Weights: some(k * c), SiLU: silu}, n: n, stride: c + 16}
	if bias {
		s.Bias = some(c)
	}
	rows := func(n int) kernel.Rows[T] { return kernel.Rows[T]{X: some(n * s.stride), Stride: s.stride} }
	s.x, s.dy, s.dlast = Rows[T]{rows(k - 1), rows(n)}, rows(n), rows(k-1)
	return s
}

// dirty returns n rows of NaN.
func (s *sequence[T]) dirty(n int) kernel.Rows[T] {
	x := make([]T, n*s.stride)
	for i := range x {
		x[i] = T(math.NaN())
	}
	return kernel.Rows[T]{X: x, Stride: s.stride}
}

func (s *sequence[T]) both() *Rows[T] { return &Rows[T]{s.dirty(s.K - 1), s.dirty(s.n)} }

// results are the results of forward and backward.
type results[T kernel.Float] struct {
	y, last kernel.Rows[T]
	dx      *Rows[T]
	sums    []float64
}

// whole computes a sequence at once.
func (s *sequence[T]) whole() results[T] {
	r := results[T]{s.dirty(s.n), s.dirty(s.K - 1), s.both(), make([]float64, s.K*s.C+len(s.Bias))}
	room := make([]T, s.Scratch())
	s.Forward(&s.x, 0, s.n, r.y, room)
	s.Last(&s.x, s.n, r.last)
	s.Backward(&s.x, s.n, s.dy, s.dlast, r.dx, r.sums, room)
	return r
}

// plain computes the sums element by element, in the same order and rounding to T, and the rest in float64.
func (s *sequence[T]) plain(c int) (z []T, dx, sums []float64) {
	at := func(i int) T { return s.x.row(s.K, i, 0, s.C)[c] }
	dx, sums = make([]float64, s.n+s.K-1), make([]float64, s.K+1)
	for i := range s.K - 1 {
		dx[s.n+i] = float64(s.dlast.Row(i, s.C)[c])
	}
	for t := range s.n {
		sum := T(s.Weights[c] * at(t))
		if s.Bias != nil {
			sum += s.Bias[c]
		}
		for j := 1; j < s.K; j++ {
			sum += T(s.Weights[j*s.C+c] * at(t+j))
		}
		z = append(z, sum)
		dz := float64(s.dy.Row(t, s.C)[c])
		if s.SiLU {
			sigmoid := 1 / (1 + math.Exp(-float64(sum)))
			dz *= sigmoid * (1 + float64(sum)*(1-sigmoid))
		}
		for j := range s.K {
			dx[t+j] += dz * float64(s.Weights[j*s.C+c])
			sums[j] += dz * float64(at(t+j))
		}
		sums[s.K] += dz
	}
	return z, dx, sums
}

func near(t *testing.T, name string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*(1+math.Abs(want))) {
		t.Errorf("%s is %v, want %v", name, got, want)
	}
}

func check[T kernel.Float](t *testing.T, k, c, n int, bias, silu bool, tolerance float64) {
	s := newSequence[T](k, c, n, bias, silu)
	got := s.whole()
	for c := range s.C {
		z, dx, sums := s.plain(c)
		if s.SiLU {
			vector.SiLU(z, z)
		}
		for i := range n {
			if y := got.y.Row(i, s.C)[c]; y != z[i] {
				t.Fatalf("y[%d,%d] is %v, want %v", i, c, y, z[i])
			}
		}
		for i := range k - 1 {
			if last, want := got.last.Row(i, s.C)[c], s.x.row(s.K, n+i, 0, s.C)[c]; last != want {
				t.Fatalf("last[%d,%d] is %v, want %v", i, c, last, want)
			}
		}
		for i, want := range dx {
			near(t, fmt.Sprintf("dx[%d,%d]", i, c), float64(got.dx.row(s.K, i, 0, s.C)[c]), want, tolerance)
		}
		for j := range len(got.sums) / s.C {
			near(t, fmt.Sprintf("dw[%d,%d]", j, c), got.sums[j*s.C+c], sums[j], tolerance)
		}
	}
}

// A block has the results of plain loops, bit for bit before the activation, and their derivatives.
func TestAgainstLoops(t *testing.T) {
	for k := 1; k <= 8; k++ {
		for _, n := range []int{0, 1, 2, 3, 7, 8, 63, 64, 65, 130} {
			for _, c := range []int{1, 5, 16, 37} {
				bias, silu := (k+n)%2 == 0, (k+c)%2 == 0
				t.Run(fmt.Sprint(k, n, c, bias, silu), func(t *testing.T) {
					check[float64](t, k, c, n, bias, silu, 1e-13)
					check[float32](t, k, c, n, bias, silu, 4e-6)
				})
			}
		}
	}
}

// A sequence cut anywhere has the bits of a whole one, forward and backward.
func TestCut(t *testing.T) {
	for _, k := range []int{1, 2, 4, 8} {
		n := 20
		s := newSequence[float32](k, 19, n, true, true)
		want := s.whole()
		for cut := range n + 1 {
			between := s.dirty(k - 1)
			got := results[float32]{s.dirty(n), s.dirty(k - 1), s.both(), make([]float64, len(want.sums))}
			room := make([]float32, s.Scratch())
			s.Forward(&s.x, 0, cut, got.y, room)
			s.Last(&s.x, cut, between)
			second := Rows[float32]{between, s.x.Sequence.From(cut)}
			s.Forward(&second, 0, n-cut, got.y.From(cut), room)
			s.Last(&second, n-cut, got.last)

			dsecond := Rows[float32]{s.dirty(k - 1), got.dx.Sequence.From(cut)}
			s.Backward(&second, n-cut, s.dy.From(cut), s.dlast, &dsecond, got.sums, room)
			s.Backward(&s.x, cut, s.dy, dsecond.State, got.dx, got.sums, room)
			for _, pair := range [][2]kernel.Rows[float32]{{got.y, want.y}, {got.last, want.last}, {got.dx.State, want.dx.State}, {got.dx.Sequence, want.dx.Sequence}} {
				for i := range len(pair[0].X) / s.stride {
					if !slices.Equal(pair[0].Row(i, s.C), pair[1].Row(i, s.C)) {
						t.Fatalf("%d weights, cut at %d: row %d is %v, want %v", k, cut, i, pair[0].Row(i, s.C), pair[1].Row(i, s.C))
					}
				}
			}
			for i, want := range want.sums {
				near(t, fmt.Sprint("sum ", i), got.sums[i], want, 1e-5)
			}
		}
	}
}

// Rows are computed without allocating.
func TestAllocates(t *testing.T) {
	s := newSequence[float32](4, 64, 70, true, true)
	y, last, dx, sums, room := s.dirty(s.n), s.dirty(s.K-1), s.both(), make([]float64, (s.K+1)*s.C), make([]float32, s.Scratch())
	if got := testing.AllocsPerRun(3, func() {
		s.Forward(&s.x, 0, s.n, y, room)
		s.Last(&s.x, s.n, last)
		s.Backward(&s.x, s.n, s.dy, s.dlast, dx, sums, room)
	}); got > 0 {
		t.Errorf("%v allocations", got)
	}
}

// Rows of a model's width, in blocks of c channels.
func benchmark(b *testing.B, f func(s *sequence[float32])) {
	for _, c := range []int{256, 512, 1024, 2048, 4096, 8192} {
		b.Run(fmt.Sprint(c), func(b *testing.B) {
			const n, wide = 512, 8192
			s := newSequence[float32](4, wide, n, true, true)
			s.C = c
			for b.Loop() {
				f(s)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n*wide), "ns/element")
		})
	}
}

func (r Rows[T]) from(c int) Rows[T] {
	shift := func(r kernel.Rows[T]) kernel.Rows[T] { return kernel.Rows[T]{X: r.X[c:], Stride: r.Stride} }
	return Rows[T]{shift(r.State), shift(r.Sequence)}
}

func BenchmarkForward(b *testing.B) {
	var y Rows[float32]
	room := make([]float32, inner)
	benchmark(b, func(s *sequence[float32]) {
		if y.Sequence.X == nil {
			y = *s.both()
		}
		for c := 0; c < s.stride-16; c += s.C {
			x := s.x.from(c)
			s.Forward(&x, 0, s.n, y.from(c).Sequence, room)
		}
	})
}

func BenchmarkBackward(b *testing.B) {
	var dx Rows[float32]
	benchmark(b, func(s *sequence[float32]) {
		if dx.Sequence.X == nil {
			dx = *s.both()
		}
		sums, room := make([]float64, (s.K+1)*s.C), make([]float32, s.Scratch())
		for c := 0; c < s.stride-16; c += s.C {
			x, to := s.x.from(c), dx.from(c)
			s.Backward(&x, s.n, s.dy, s.dlast, &to, sums, room)
		}
	})
}
