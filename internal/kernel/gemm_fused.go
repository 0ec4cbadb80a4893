package kernel

import "unsafe"

// Matrix is an operand of a fused product: element i,j is X[i*Row+j*Col].
type Matrix[T Float] struct {
	X        []T
	Row, Col int
}

// from returns the columns from j on.
func (m Matrix[T]) from(j int) Matrix[T] { return Matrix[T]{m.X[j*m.Col:], m.Row, m.Col} }

// fusedBytes is what two pieces of results take that are made, and used while they
// are in the second level cache: half of it.
const fusedBytes = 512 << 10

// fusedCols returns how many of n columns of m rows are made at once.
func fusedCols[T Float](m, n int) int {
	unit := tileVecs * vectorLanes
	return min(n, max(unit, fusedBytes/2/int(unsafe.Sizeof(T(0)))/max(m, 1)/unit*unit))
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
	return evenly(max(m, 1), most, 8)
}

// Left is the left operand of a fused product: row i is X[At(i)*Row:], with At(i) = i
// if At is nil.
type Left[T Float] struct {
	X   []T
	Row int
	At  []int32
}

// gatheredBytes is what gathered rows take at most while they are multiplied.
const gatheredBytes = 1 << 20

// rowsAtOnce returns how many of m rows of k elements are multiplied at once.
func (l Left[T]) rowsAtOnce(m, k int) int {
	n := fusedRows(m, k)
	if l.At != nil {
		n = min(n, max(8, gatheredBytes/int(unsafe.Sizeof(T(0)))/max(k, 1)/8*8))
	}
	return n
}

// rows returns m rows of k elements from row i on, and how far apart they are: as
// they lie, or side by side in the memory of w.
func (l Left[T]) rows(w *workspace[T], i, m, k int) ([]T, int) {
	if l.At == nil {
		return l.X[i*l.Row:], l.Row
	}
	x := room(&w.gathered, m*k)
	for r, at := range l.At[i : i+m] {
		copy(x[r*k:(r+1)*k], l.X[int(at)*l.Row:])
	}
	return x, k
}

// GemmSwiGLU sets h = silu(g)·u with g = x·gate and u = x·up: m rows of x, of k
// elements, times k by n. Where g and u are nil they are not kept. Results have rows
// of n side by side, and the bits of Gemm and SwiGLU.
func GemmSwiGLU[T Float](m, n, k int, x Left[T], gate, up Matrix[T], g, u, h []T) {
	w := workspaceOf[T]()
	defer w.release()
	rows := x.rowsAtOnce(m, k)
	for i := 0; i < m; i += rows {
		in := min(rows, m-i)
		cols := fusedCols[T](in, n)
		xs, xRow := x.rows(w, i, in, k)
		for j := 0; j < n; j += cols {
			jn := min(cols, n-j)
			gs, us, row := w.kept(0, g, in, i, j, n, jn), w.kept(1, u, in, i, j, n, jn), n
			if g == nil {
				row = jn
			}
			a, b := gate.from(j), up.from(j)
			w.gemm(in, jn, k, xs, xRow, 1, a.X, a.Row, a.Col, gs, row, false)
			w.gemm(in, jn, k, xs, xRow, 1, b.X, b.Row, b.Col, us, row, false)
			for r := range in {
				SwiGLU(h[(i+r)*n+j:][:jn], gs[r*row:][:jn], us[r*row:][:jn])
			}
		}
	}
}

// GemmSwiGLUGrad is the gradient of SwiGLU at g and u for the cotangent dy·b: m rows
// of dy, of k elements, times k by n. The other arguments have rows of n side by
// side; dg and du have the bits of Gemm and SwiGLUGrad.
func GemmSwiGLUGrad[T Float](m, n, k int, dy []T, b Matrix[T], g, u, dg, du []T) {
	w := workspaceOf[T]()
	defer w.release()
	rows := fusedRows(m, k)
	for i := 0; i < m; i += rows {
		in := min(rows, m-i)
		cols := fusedCols[T](in, n)
		for j := 0; j < n; j += cols {
			jn := min(cols, n-j)
			ct, at := w.kept(0, nil, in, i, j, n, jn), b.from(j)
			w.gemm(in, jn, k, dy[i*k:], k, 1, at.X, at.Row, at.Col, ct, jn, false)
			for r := range in {
				o := (i+r)*n + j
				SwiGLUGrad(dg[o:][:jn], du[o:][:jn], g[o:][:jn], u[o:][:jn], ct[r*jn:][:jn])
			}
		}
	}
}

// GemmSum sets y = a·b + c·d, both of m by n: m rows of a and of c, of k elements
// side by side. It has the bits of adding the second product to the first when
// both are complete.
func GemmSum[T Float](m, n, k int, a []T, b Matrix[T], c []T, d Matrix[T], y []T) {
	w := workspaceOf[T]()
	defer w.release()
	rows := fusedRows(m, k)
	for i := 0; i < m; i += rows {
		in := min(rows, m-i)
		cols := fusedCols[T](in, n)
		for j := 0; j < n; j += cols {
			jn := min(cols, n-j)
			first, second := b.from(j), d.from(j)
			more := w.kept(0, nil, in, i, j, n, jn)
			w.gemm(in, jn, k, a[i*k:], k, 1, first.X, first.Row, first.Col, y[i*n+j:], n, false)
			w.gemm(in, jn, k, c[i*k:], k, 1, second.X, second.Row, second.Col, more, jn, false)
			for r := range in {
				add(y[(i+r)*n+j:][:jn], more[r*jn:][:jn])
			}
		}
	}
}

// kept returns where a piece of a result is made, whose first element is i,j: in
// the result, whose rows have n elements, or in scratch memory if there is none.
func (w *workspace[T]) kept(slot int, result []T, m, i, j, n, jn int) []T {
	if result != nil {
		return result[i*n+j:]
	}
	return room(&w.pieces[slot], m*jn)
}
