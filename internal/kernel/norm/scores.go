package norm

import (
	"math"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// ScoreRoom is the number of elements after its results that a function of this file may
// overwrite.
const ScoreRoom = 7

// Sigmoids sets y = 1/(1 + exp(-x)) in float64. Kernels may differ by one rounding of a
// float64. y has at least ScoreRoom elements more than x.
func Sigmoids[T kernel.Float](y []float64, x []T) { sigmoids(lineLoopsOf[T](), y, x) }

func sigmoids[T kernel.Float](l *lineLoops, y []float64, x []T) {
	_ = y[:len(x)+ScoreRoom]
	if l != nil && l.sigmoids != nil && len(x) > 0 {
		l.sigmoids(len(x), &y[0], first(x))
		return
	}
	for i, x := range x {
		y[i] = 1 / (1 + math.Exp(-float64(x)))
	}
}

// RootSoftplus sets y = √log(1 + exp(x)). Roundings and the length of y are as for Sigmoids.
func RootSoftplus[T kernel.Float](y []float64, x []T) { rootSoftplus(lineLoopsOf[T](), y, x) }

func rootSoftplus[T kernel.Float](l *lineLoops, y []float64, x []T) {
	_ = y[:len(x)+ScoreRoom]
	if l != nil && l.rootSoftplus != nil && len(x) > 0 {
		l.rootSoftplus(len(x), &y[0], first(x))
		return
	}
	for i, x := range x {
		x := float64(x)
		y[i] = math.Sqrt(max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))))
	}
}

// SoftmaxRows sets each row of n elements of y to the softmax of that row of x, which has
// no NaN. The powers are added in the order of vector.Sum. Roundings and the length of y
// are as for Sigmoids.
func SoftmaxRows[T kernel.Float](y []float64, x []T, n int) { softmaxRows(lineLoopsOf[T](), y, x, n) }

func softmaxRows[T kernel.Float](l *lineLoops, y []float64, x []T, n int) {
	_ = y[:len(x)+ScoreRoom]
	if n == 0 || len(x) == 0 {
		return
	}
	if l != nil && l.softmaxRows != nil {
		l.softmaxRows(n, &y[0], first(x), len(x)/n)
		return
	}
	for at := 0; at+n <= len(x); at += n {
		top := math.Inf(-1)
		for _, v := range x[at : at+n] {
			top = max(top, float64(v))
		}
		row := y[at : at+n]
		for i, v := range x[at : at+n] {
			row[i] = math.Exp(float64(v) - top)
		}
		sum := vector.Sum(row)
		for i := range row {
			row[i] /= sum
		}
	}
}
