package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// gatheredCols is the smallest number of columns gathered at once: rows of fewer columns
// fill only parts of cache lines.
const gatheredCols = 64

// Product sets y = x·b. x is m by k, b is k by n, and the rows of y are consecutive. y
// has the bits of MultiplyPanels.
func Product[E Number](dry *kernel.Dry, m, n, k int, x Left[E], b Matrix[E], y []E) {
	if x.At == nil {
		MultiplyPanels(dry, m, n, k, x.X, x.Row, 1, b, y, n, false)
		return
	}
	s, do := spaceOf[E](dry)
	defer s.release()
	rows := x.rowsAtOnce(m, k)
	for i := 0; i < m; i = s.dry.Next(i, rows, m) {
		in := min(rows, m-i)
		xs, row := x.rows(s, i, in, k)
		do.product(s.dry, in, n, k, xs, row, b, kernel.From(y, i*n), n)
	}
}

// Outer sets w = x'ᵀ·y, where x' are m columns of x from column `from` on, and x and y have
// k rows, those in y of n elements. The rows of w are consecutive. w has the bits of
// MultiplyPanels.
func Outer[E Number](dry *kernel.Dry, m, n, k int, x Left[E], from int, y Left[E], w []E) {
	if x.At == nil && y.At == nil {
		MultiplyPanels(dry, m, n, k, kernel.From(x.X, from), 1, x.Row, Matrix[E]{X: y.X, Row: y.Row, Col: 1}, w, n, false)
		return
	}
	s, do := spaceOf[E](dry)
	defer s.release()
	xCols, yCols := x.colsAtOnce(m, k), y.colsAtOnce(n, k)
	for i := 0; i < m; i = s.dry.Next(i, xCols, m) {
		in := min(xCols, m-i)
		xs, xRow := x.cols(s, 2, from+i, in, k)
		for j := 0; j < n; j = s.dry.Next(j, yCols, n) {
			jn := min(yCols, n-j)
			ys, yRow := y.cols(s, 1, j, jn, k)
			do.gemm(s.dry, in, jn, k, xs, 1, xRow, Matrix[E]{X: ys, Row: yRow, Col: 1}, kernel.From(w, i*n+j), n, false)
		}
	}
}

// colsAtOnce returns the number of the n columns of k rows multiplied at once. There are
// fewer if rows are gathered.
func (l Left[E]) colsAtOnce(n, k int) int {
	if l.At == nil {
		return max(n, 1)
	}
	return max(1, min(n, max(gatheredCols, gatheredBytes/int(unsafe.Sizeof(E(0)))/max(k, 1)/gatheredCols*gatheredCols)))
}

// cols returns n columns of k rows from column j on, and their row stride in elements.
// Without At they are read in place. Otherwise they are gathered, row by row, in a slot
// of the memory of s.
func (l Left[E]) cols(s *space, slot, j, n, k int) ([]E, int) {
	if l.At == nil {
		return kernel.From(l.X, j), l.Row
	}
	x := spaceFor[E](s, slot, n*k)
	for r := range s.dry.Times(k) {
		copy(x[r*n:(r+1)*n], l.X[int(l.At[r])*l.Row+j:])
	}
	return x, n
}
