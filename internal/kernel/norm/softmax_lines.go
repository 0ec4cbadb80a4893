package norm

import (
	"math"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// A row of at most shortRow elements, a vector, is too short for its own call of the
// loops over vectors: for a row of 8, softmax took 156 ns, and takes 24 now. So the
// powers of many short rows, a block, are computed at once. They have the bits of ExpSum.
const (
	shortRow  = kernel.Lanes
	rowsBlock = 512 // elements: 2 KiB
)

// SoftmaxLines sets each row of n elements of y to exp(x - max)/Σ exp(x - max) of that
// row of x, with the bits of Max, ExpSum and Scaled of package vector for the row. y may
// be x.
func SoftmaxLines[T kernel.Float](y, x []T, n int) { softmaxLines(kernel.VectorsOf[T](), y, x, n) }

func softmaxLines[T kernel.Float](v kernel.Kind, y, x []T, n int) {
	y = y[:len(x)]
	if n == 0 {
		return
	}
	if n > shortRow || v == kernel.Portable {
		for at := 0; at+n <= len(x); at += n {
			row := y[at:][:n]
			vector.ScaledOf(v, row, row, 1, vector.ExpSumOf(v, row, x[at:][:n], vector.MaxOf(v, x[at:][:n])))
		}
		return
	}
	block := rowsBlock / n * n
	for at := 0; at < len(x); at += block {
		d := y[at:min(at+block, len(x))]
		for r := 0; r+n <= len(d); r += n {
			row := x[at+r:][:n]
			less(d[r:][:n], row, vector.MaxOf(kernel.Portable, row))
		}
		vector.ExpSumOf(v, d, d, 0)
		for ; len(d) >= n; d = d[n:] {
			row := d[:n]
			factor := 1 / sumOfLanes(row)
			for i, e := range row {
				row[i] = T(float64(e) * factor)
			}
		}
	}
}

// LogSumExpLines sets y[i] = log Σ exp(x) over row i of n elements of x. The elements are
// shifted by the largest of them if that is finite. The bits are the same as with Max and
// ExpTotal of package vector for the row.
func LogSumExpLines[T kernel.Float](y, x []T, n int) { logSumExpLines(kernel.VectorsOf[T](), y, x, n) }

func logSumExpLines[T kernel.Float](v kernel.Kind, y, x []T, n int) {
	if n == 0 || n > shortRow || v == kernel.Portable {
		for i := range y {
			row := x[i*n:][:n]
			m := finite(vector.MaxOf(v, row)) // Inf - Inf would be NaN
			y[i] = T(float64(m) + math.Log(vector.ExpTotalOf(v, row, m)))
		}
		return
	}
	var sums [rowsBlock]T
	block := rowsBlock / n
	for i := 0; i < len(y); i += block {
		rows := min(block, len(y)-i)
		d := sums[:rows*n]
		for r := range rows {
			row := x[(i+r)*n:][:n]
			m := finite(vector.MaxOf(kernel.Portable, row))
			y[i+r] = m
			less(d[r*n:][:n], row, m)
		}
		vector.ExpSumOf(v, d, d, 0)
		for r := range rows {
			y[i+r] = T(float64(y[i+r]) + math.Log(sumOfLanes(d[r*n:][:n])))
		}
	}
}

// finite returns m, or 0 for an infinity.
func finite[T kernel.Float](m T) T {
	if math.IsInf(float64(m), 0) {
		return 0
	}
	return m
}

// less sets d = x - m. d may be x.
func less[T kernel.Float](d, x []T, m T) {
	d = d[:len(x)]
	for i, x := range x {
		d[i] = x - m
	}
}

// sumOfLanes adds a short row like ExpSum: elements 8 apart, then sums 4, 2 and 1 apart.
func sumOfLanes[T kernel.Float](row []T) float64 {
	var s [shortRow]float64
	for i, e := range row {
		s[i] = float64(e)
	}
	for i := range 8 {
		s[i] += s[i+8]
	}
	for i := range 4 {
		s[i] += s[i+4]
	}
	return (s[0] + s[2]) + (s[1] + s[3])
}
