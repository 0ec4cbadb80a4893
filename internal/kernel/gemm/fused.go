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
	Panels   // of the same numbers, or none
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
	// fusedBytes is what two pieces of results take that are made, and used while they
	// are in the second level cache: half of it.
	fusedBytes = 512 << 10
	// fusedUnit divides the number of columns of a piece: the widest tile's.
	fusedUnit = tileVecs * kernel.Lanes
	// gatheredBytes is what gathered rows take at most while they are multiplied.
	gatheredBytes = 1 << 20
)

// fusedCols returns how many of n columns of m rows are made at once, of products with
// matrices such as b.
func fusedCols[E Number](m, n int, b Matrix[E]) int {
	unit := fusedUnit
	if b.mem != nil {
		unit = PanelUnit
	}
	return min(n, max(unit, fusedBytes/2/int(unsafe.Sizeof(E(0)))/max(m, 1)/unit*unit))
}

// fusedRows returns how many of m rows are made at once: pieces of rows are long
// since each copies its columns of B, of k elements, and short enough for wide
// pieces of columns. Columns of 48 leave results one cache line after another on a
// page of its own each: 1024 rows of 512 columns, k=128, took 3.2 ms with the
// gradient of SwiGLU, of which the product 0.6; pieces of 128 rows 1.2, of 256 1.5.
// With k=512 there is nothing between 128 and 384, and these copy less.
func fusedRows(m, k int) int {
	most := 128
	if k > gemmDeep {
		most = 384
	}
	return kernel.Evenly(max(m, 1), most, 8)
}

// rowsAtOnce returns how many of m rows of k elements are multiplied at once.
func (l Left[E]) rowsAtOnce(m, k int) int {
	n := fusedRows(m, k)
	if l.At != nil {
		n = min(n, max(8, gatheredBytes/int(unsafe.Sizeof(E(0)))/max(k, 1)/8*8))
	}
	return n
}

// rows returns m rows of k elements from row i on, and how far apart they are: as
// they lie, or side by side in the memory of s.
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

// SwiGLU sets h = silu(g)·u with g = x·gate and u = x·up: m rows of x, of k
// elements, times k by n. If g and u are nil they are not stored. Rows of results, of n
// elements, lie side by side. Results have the bits of Multiply, or MultiplyHalf, followed
// by vector.SwiGLU: numbers of 16 bits are rounded where these functions would return them.
func SwiGLU[E Number](dry *kernel.Dry, m, n, k int, x Left[E], gate, up Matrix[E], g, u, h []E) {
	s, do := spaceOf[E](dry)
	defer s.release()
	do.gemmSwiGLU(s, m, n, k, x, gate, up, g, u, h)
}

// gemmSwiGLU is SwiGLU in the memory of s.
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

// SwiGLUGrad is the gradient of SwiGLU at g and u for the cotangent dy·b: m rows
// of dy, of k elements, times k by n. The other arguments have rows of n side by
// side; dg and du have the bits of Multiply, or MultiplyHalf, and SwiGLUGrad.
func SwiGLUGrad[E Number](dry *kernel.Dry, m, n, k int, dy []E, b Matrix[E], g, u, dg, du []E) {
	s, do := spaceOf[E](dry)
	defer s.release()
	do.gemmSwiGLUGrad(s, m, n, k, dy, b, g, u, dg, du)
}

// gemmSwiGLUGrad is SwiGLUGrad in the memory of s.
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

// Sum sets y = a·b + c·d, both of m by n: m rows of a and of c, of k elements
// side by side. It has the bits of adding the second product to the first when
// both are complete.
func Sum[E Number](dry *kernel.Dry, m, n, k int, a []E, b Matrix[E], c []E, d Matrix[E], y []E) {
	s, do := spaceOf[E](dry)
	defer s.release()
	do.gemmSum(s, m, n, k, a, b, c, d, y)
}

// gemmSum is Sum in the memory of s.
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

// kept returns where m rows of jn columns of a result are made: in the result, from
// element at on, or in scratch memory if there is none.
func kept[E Number](s *space, slot int, result []E, m, at, jn int) []E {
	if result != nil {
		return kernel.From(result, at)
	}
	return spaceFor[E](s, slot, m*jn)
}
