package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/kernel"
)

// Number is an element type of fused products.
type Number interface {
	float32 | float64 | array.Brain | array.Half
}

// Matrix is the right operand of a product: element i,j is X[i*Row+j*Col].
type Matrix[E Number] struct {
	X        []E
	Row, Col int
	Panels   // copies of the same numbers, or zero
}

// from returns the columns from j on.
func (m Matrix[E]) from(j int) Matrix[E] {
	return Matrix[E]{kernel.From(m.X, j*m.Col), m.Row, m.Col, m.Panels.From(j)}
}

// Left is the left operand of a fused product: row i is X[At(i)*Row:], with At(i) = i
// if At is nil.
type Left[E Number] struct {
	X   []E
	Row int
	At  []int32
}

const (
	// fusedBytes is the memory of two pieces of results, which are computed and then used
	// while in the second-level cache. It is half of that cache.
	fusedBytes = 512 << 10
	// fusedUnit divides the number of columns of a piece. It is the width of the widest
	// tile.
	fusedUnit = tileVecs * kernel.Lanes
	// gatheredBytes is the approximate limit on memory for gathered rows while
	// multiplying them.
	gatheredBytes = 1 << 20
)

// fusedCols returns the number of the n columns computed at once, when m rows are
// multiplied by a matrix such as b.
func fusedCols[E Number](m, n int, b Matrix[E]) int {
	unit := fusedUnit
	if b.mem != nil {
		unit = PanelUnit
	}
	return min(n, max(unit, fusedBytes/2/int(unsafe.Sizeof(E(0)))/max(m, 1)/unit*unit))
}

// fusedRows returns the number of the m rows computed at once. Pieces with many rows are
// good because each piece copies its columns of B, of k elements. Pieces with fewer rows
// allow more columns: pieces of all 1024 rows and 48 columns write cache lines that are
// each on another page. Measured with the gradient of SwiGLU, for 1024 rows of 512
// columns and k=128: 3.2 ms for these, including 0.6 for the product; 1.2 ms for pieces
// of 128 rows, and 1.5 for 256. With k=512, 128 and 384 rows take as long, and 384 copy
// less.
func fusedRows(m, k int) int {
	most := 128
	if k > gemmDeep {
		most = 384
	}
	return kernel.Evenly(max(m, 1), most, 8)
}

// rowsAtOnce returns the number of the m rows of k elements multiplied at once. There are
// fewer if rows are gathered.
func (l Left[E]) rowsAtOnce(m, k int) int {
	n := fusedRows(m, k)
	if l.At != nil {
		n = min(n, max(8, gatheredBytes/int(unsafe.Sizeof(E(0)))/max(k, 1)/8*8))
	}
	return n
}

// rows returns m rows of k elements from row i on, and their stride in elements. Without
// At they are read in place. Otherwise they are gathered contiguously in the memory of s.
func (l Left[E]) rows(s *space, i, m, k int) ([]E, int) {
	if l.At == nil {
		return kernel.From(l.X, i*l.Row), l.Row
	}
	x := spaceFor[E](s, 2, m*k)
	for r := range s.dry.Times(m) {
		copy(x[r*k:(r+1)*k], l.X[int(l.At[i+r])*l.Row:])
	}
	return x, k
}

// SwiGLU sets h = silu(g)·u with g = x·gate and u = x·up. x is m by k, gate and up are k
// by n. g and u are stored unless they are nil. Results have consecutive rows of n
// elements. They have the bits of Multiply, or MultiplyHalf, followed by vector.SwiGLU:
// 16-bit numbers are rounded at the same points.
func SwiGLU[E Number](dry *kernel.Dry, m, n, k int, x Left[E], gate, up Matrix[E], g, u, h []E) {
	s, do := spaceOf[E](dry)
	defer s.release()
	do.gemmSwiGLU(s, m, n, k, x, gate, up, g, u, h)
}

// gemmSwiGLU is SwiGLU with the scratch memory s.
func (do *arithmetic[E]) gemmSwiGLU(s *space, m, n, k int, x Left[E], gate, up Matrix[E], g, u, h []E) {
	rows := x.rowsAtOnce(m, k)
	for i := 0; i < m; i = s.dry.Next(i, rows, m) {
		in := min(rows, m-i)
		cols := fusedCols(in, n, gate)
		xs, xRow := x.rows(s, i, in, k)
		for j := 0; j < n; j = s.dry.Next(j, cols, n) {
			jn := min(cols, n-j)
			gs, us, row := kept(s, 0, g, in, i*n+j, jn), kept(s, 1, u, in, i*n+j, jn), n
			if g == nil {
				row = jn
			}
			do.product(s.dry, in, jn, k, xs, xRow, gate.from(j), gs, row)
			do.product(s.dry, in, jn, k, xs, xRow, up.from(j), us, row)
			for r := range s.dry.Times(in) {
				do.swiglu(s, h[(i+r)*n+j:][:jn], gs[r*row:][:jn], us[r*row:][:jn])
			}
		}
	}
}

// SwiGLUGrad sets dg and du to the cotangents of g and u in h = silu(g)·u, given dy·b as
// the cotangent of h. dy is m by k, b is k by n. The other arguments have consecutive
// rows of n elements. dg and du have the bits of Multiply, or MultiplyHalf, followed by
// vector.SwiGLUGrad.
func SwiGLUGrad[E Number](dry *kernel.Dry, m, n, k int, dy []E, b Matrix[E], g, u, dg, du []E) {
	s, do := spaceOf[E](dry)
	defer s.release()
	do.gemmSwiGLUGrad(s, m, n, k, dy, b, g, u, dg, du)
}

// gemmSwiGLUGrad is SwiGLUGrad with the scratch memory s.
func (do *arithmetic[E]) gemmSwiGLUGrad(s *space, m, n, k int, dy []E, b Matrix[E], g, u, dg, du []E) {
	rows := fusedRows(m, k)
	for i := 0; i < m; i = s.dry.Next(i, rows, m) {
		in := min(rows, m-i)
		cols := fusedCols(in, n, b)
		for j := 0; j < n; j = s.dry.Next(j, cols, n) {
			jn := min(cols, n-j)
			ct := spaceFor[E](s, 0, in*jn)
			do.product(s.dry, in, jn, k, kernel.From(dy, i*k), k, b.from(j), ct, jn)
			for r := range s.dry.Times(in) {
				o := (i+r)*n + j
				do.swigluGrad(s, dg[o:][:jn], du[o:][:jn], g[o:][:jn], u[o:][:jn], ct[r*jn:][:jn])
			}
		}
	}
}

// Sum sets y = a·b + c·d. a and c are m by k, with consecutive rows; b and d are k by n.
// y has the bits of computing both products and then adding the second to the first.
func Sum[E Number](dry *kernel.Dry, m, n, k int, a []E, b Matrix[E], c []E, d Matrix[E], y []E) {
	s, do := spaceOf[E](dry)
	defer s.release()
	do.gemmSum(s, m, n, k, a, b, c, d, y)
}

// gemmSum is Sum with the scratch memory s.
func (do *arithmetic[E]) gemmSum(s *space, m, n, k int, a []E, b Matrix[E], c []E, d Matrix[E], y []E) {
	rows := fusedRows(m, k)
	for i := 0; i < m; i = s.dry.Next(i, rows, m) {
		in := min(rows, m-i)
		cols := fusedCols(in, n, b)
		for j := 0; j < n; j = s.dry.Next(j, cols, n) {
			jn := min(cols, n-j)
			more := spaceFor[E](s, 0, in*jn)
			do.product(s.dry, in, jn, k, kernel.From(a, i*k), k, b.from(j), kernel.From(y, i*n+j), n)
			do.product(s.dry, in, jn, k, kernel.From(c, i*k), k, d.from(j), more, jn)
			for r := range s.dry.Times(in) {
				sum := y[(i+r)*n+j:][:jn]
				do.add(s, sum, sum, more[r*jn:][:jn])
			}
		}
	}
}

// kept returns the memory for m rows of jn columns of a result: the result's own, from
// element `at` on, or scratch memory if result is nil.
func kept[E Number](s *space, slot int, result []E, m, at, jn int) []E {
	if result != nil {
		return kernel.From(result, at)
	}
	return spaceFor[E](s, slot, m*jn)
}
