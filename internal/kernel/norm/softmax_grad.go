package norm

import (
	"math"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// Difference sets y = (x - c) - d in float64, rounded to T once. y may be x.
func Difference[T kernel.Float](y, x []T, c, d float64) { difference(lineLoopsOf[T](), y, x, c, d) }

func difference[T kernel.Float](l *lineLoops, y, x []T, c, d float64) {
	y = y[:len(x)]
	if l != nil && l.less != nil {
		l.less(len(x), first(y), first(x), c, d)
		return
	}
	for i, x := range x {
		y[i] = T((float64(x) - c) - d)
	}
}

// SoftmaxGrad sets each row of n elements of dx to y·(ct - vector.Dot(y, ct)) of that
// row, in float64, rounded once. This is the cotangent of softmax's argument, given
// softmax's result y and its cotangent ct. dx may be y or ct.
func SoftmaxGrad[T kernel.Float](dx, y, ct []T, n int) { softmaxGrad(lineLoopsOf[T](), dx, y, ct, n) }

func softmaxGrad[T kernel.Float](l *lineLoops, dx, y, ct []T, n int) {
	dx, ct = dx[:len(y)], ct[:len(y)]
	if n == 0 || len(y) == 0 {
		return
	}
	if l != nil && l.softmaxGrad != nil {
		l.softmaxGrad(n, first(dx), first(y), first(ct), len(y)/n)
		return
	}
	for at := 0; at+n <= len(y); at += n {
		c := vector.Dot(y[at:at+n], ct[at:at+n])
		for i := at; i < at+n; i++ {
			dx[i] = T(float64(y[i]) * (float64(ct[i]) - c))
		}
	}
}

// LogSoftmaxGrad sets dx = ct - exp(y)·sum in float64, rounded once. If sum is Σ ct, this is
// the cotangent of log_softmax's argument for one line: y is the result and ct the
// cotangent of y. dx may be y or ct.
func LogSoftmaxGrad[T kernel.Float](dx, y, ct []T, sum float64) {
	logSoftmaxGrad(lineLoopsOf[T](), dx, y, ct, sum)
}

func logSoftmaxGrad[T kernel.Float](l *lineLoops, dx, y, ct []T, sum float64) {
	dx, ct = dx[:len(y)], ct[:len(y)]
	if l != nil && l.logSoftmaxGrad != nil {
		l.logSoftmaxGrad(len(y), first(dx), first(y), first(ct), sum)
		return
	}
	for i, y := range y {
		dx[i] = T(float64(ct[i]) - float64(math.Exp(float64(y))*sum))
	}
}
