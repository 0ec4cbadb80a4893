package kernel

import "math"

// Difference sets y = x - c in float64, rounded once. y may be x.
func Difference[T Float](y, x []T, c float64) { difference(mathLoopsOf[T](), y, x, c) }

func difference[T Float](l *mathLoops, y, x []T, c float64) {
	y = y[:len(x)]
	if l != nil && l.less != nil {
		l.less(len(x), first(y), first(x), c)
		return
	}
	for i, x := range x {
		y[i] = T(float64(x) - c)
	}
}

// SoftmaxGrad sets dx = y·(ct - dot) in float64, rounded once, which is the
// derivative of a line of softmax if dot is Σ ct·y. dx may be y or ct.
func SoftmaxGrad[T Float](dx, y, ct []T, dot float64) {
	softmaxGrad(mathLoopsOf[T](), dx, y, ct, dot)
}

func softmaxGrad[T Float](l *mathLoops, dx, y, ct []T, dot float64) {
	dx, ct = dx[:len(y)], ct[:len(y)]
	if l != nil && l.softmaxGrad != nil {
		l.softmaxGrad(len(y), first(dx), first(y), first(ct), dot)
		return
	}
	for i, y := range y {
		dx[i] = T(float64(y) * (float64(ct[i]) - dot))
	}
}

// LogSoftmaxGrad sets dx = ct - exp(y)·sum in float64, rounded once, which is the
// derivative of a line of log_softmax if sum is Σ ct. dx may be y or ct.
func LogSoftmaxGrad[T Float](dx, y, ct []T, sum float64) {
	logSoftmaxGrad(mathLoopsOf[T](), dx, y, ct, sum)
}

func logSoftmaxGrad[T Float](l *mathLoops, dx, y, ct []T, sum float64) {
	dx, ct = dx[:len(y)], ct[:len(y)]
	if l != nil && l.logSoftmaxGrad != nil {
		l.logSoftmaxGrad(len(y), first(dx), first(y), first(ct), sum)
		return
	}
	for i, y := range y {
		dx[i] = T(float64(ct[i]) - float64(math.Exp(float64(y))*sum))
	}
}
