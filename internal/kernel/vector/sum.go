package vector

import (
	"math"

	"github.com/gomoe/gomoe/internal/kernel"
)

// sums is the number of partial sums of a sum.
const sums = 8

// Sum returns the sum of x in float64. It keeps 8 partial sums, which begin with 0: sum k
// adds the elements k, k+8, k+16 and so on. Then sums 4 apart are added, then sums 2
// apart, then the last two. The bits are the same with all kernels.
func Sum[T kernel.Float](x []T) float64 { return sum(mathLoopsOf[T](), x) }

func sum[T kernel.Float](l *mathLoops, x []T) float64 {
	if l != nil && l.sum != nil {
		return l.sum(len(x), first(x))
	}
	var s [sums]float64
	for ; len(x) >= sums; x = x[sums:] {
		s[0] += float64(x[0])
		s[1] += float64(x[1])
		s[2] += float64(x[2])
		s[3] += float64(x[3])
		s[4] += float64(x[4])
		s[5] += float64(x[5])
		s[6] += float64(x[6])
		s[7] += float64(x[7])
	}
	for i, x := range x {
		s[i] += float64(x)
	}
	return pairs(&s)
}

func pairs(s *[sums]float64) float64 {
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

// Dot returns the sum of the products x·y in the order of Sum. Each product is rounded to
// float64 before being added.
func Dot[T kernel.Float](x, y []T) float64 { return dot(mathLoopsOf[T](), x, y) }

func dot[T kernel.Float](l *mathLoops, x, y []T) float64 {
	y = y[:len(x)]
	if l != nil && l.dot != nil {
		return l.dot(len(x), first(x), first(y))
	}
	var s [sums]float64
	for i, x := range x {
		s[i%sums] += float64(float64(x) * float64(y[i]))
	}
	return pairs(&s)
}

// SumColumns sets y[j] to the sum of x[i·stride + j] over the rows i from 0 to rows-1, in
// the order of Sum, for every column j of y. room is scratch memory of SumRoom elements.
func SumColumns[T kernel.Float](y, x []T, rows, stride int, room []float64) {
	sumColumns(mathLoopsOf[T](), y, x, rows, stride, room)
}

// columnsAtOnce is the number of columns summed at a time: the 8 partial sums of each
// take half of the first-level cache. sumBand is the number of rows summed at a time;
// every 8th of them is added to the same partial sums. SumRoom is the number of the
// partial sums.
const (
	columnsAtOnce = 256
	sumBand       = 64
	SumRoom       = sums * columnsAtOnce
)

func sumColumns[T kernel.Float](l *mathLoops, y, x []T, rows, stride int, room []float64) {
	if rows == 0 {
		clear(y)
		return
	}
	_ = x[(rows-1)*stride : (rows-1)*stride+len(y)]
	room = room[:SumRoom]
	for at := 0; at < len(y); at += columnsAtOnce {
		to := y[at:min(at+columnsAtOnce, len(y))]
		n := (len(to) + sums - 1) &^ (sums - 1)
		clear(room[:sums*n])
		if l == nil || l.sumRows == nil || l.sumTree == nil {
			sumColumnsInGo(room[:sums*n], to, x[at:], rows, stride, n)
			continue
		}
		for band := 0; band < rows; band += sumBand {
			for k := range min(sums, rows-band) {
				count := (min(sumBand, rows-band) - k + sums - 1) / sums
				l.sumRows(len(to), &room[k*n], first(x[(band+k)*stride+at:]), sums*stride*4, count)
			}
		}
		l.sumTree(len(to), first(to), &room[0], n*8)
	}
}

func sumColumnsInGo[T kernel.Float](room []float64, y, x []T, rows, stride, n int) {
	for i := range rows {
		s := room[i%sums*n:][:len(y)]
		for j, v := range x[i*stride:][:len(y)] {
			s[j] += float64(v)
		}
	}
	for j := range y {
		var s [sums]float64
		for k := range s {
			s[k] = room[k*n+j]
		}
		y[j] = T(pairs(&s))
	}
}

// Largest returns the largest element of x, and Smallest the smallest. They return NaN if
// an element is NaN; -0 is smaller than 0. Without elements they return -Inf and +Inf.
func Largest[T kernel.Float](x []T) T { return largest(mathLoopsOf[T](), x) }

func largest[T kernel.Float](l *mathLoops, x []T) T {
	if l != nil && l.largest != nil {
		return T(l.largest(len(x), first(x)))
	}
	top := T(math.Inf(-1))
	for _, x := range x {
		top = max(top, x)
	}
	return top
}

func Smallest[T kernel.Float](x []T) T { return smallest(mathLoopsOf[T](), x) }

func smallest[T kernel.Float](l *mathLoops, x []T) T {
	if l != nil && l.smallest != nil {
		return T(l.smallest(len(x), first(x)))
	}
	low := T(math.Inf(1))
	for _, x := range x {
		low = min(low, x)
	}
	return low
}
