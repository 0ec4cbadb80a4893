package norm

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// normLoop is a loop over rows in assembly. The formulas are in asm/norm.go and
// neon/norm.go.
type normLoop uint8

const (
	normRMS normLoop = iota
	normRMSGrad
	normRMSInverse
	normLayer
	normLayerGrad
	normMoments
	normAddGain
	normAddBias
	normTurn
)

// normArgs is the argument of the loops. The generator knows the offsets of its
// fields.
type normArgs struct {
	rows, n       int // rows is at least 1; n, a row's elements, is a positive multiple of kernel.Lanes
	x, gain, bias *float32
	ct            *float32
	y             unsafe.Pointer // float32, or the float64 sums of columns
	mean, inv     *float64
	step          int // stride of the rows' means in bytes
	eps           float64
	count         float64 // n
	pitch         int     // row stride of x, ct and y in bytes
}

// These lines compile only if the offsets match asm/norm.go and neon/norm.go.
const (
	_ = -(unsafe.Offsetof(normArgs{}.ct) ^ 40)
	_ = -(unsafe.Offsetof(normArgs{}.inv) ^ 64)
	_ = -(unsafe.Offsetof(normArgs{}.eps) ^ 80)
	_ = -(unsafe.Offsetof(normArgs{}.pitch) ^ 96)
)

// norm runs a loop over the rows of x and returns true, or returns false if v has no loop
// for rows of n elements. The caller has set the pointers of t to arrays with one element
// per row, such as mean.
func norm(v kernel.Kind, l normLoop, t *normArgs, n int, x, gain, bias, ct, y []float32) bool {
	if v == kernel.Portable || n == 0 || n%kernel.Lanes != 0 {
		return false
	}
	t.rows, t.n, t.count, t.pitch = len(x)/n, n, float64(n), 4*n
	if t.rows == 0 {
		return true
	}
	all := t.rows * n
	t.x = &x[0]
	// Assembly does not check bounds.
	if y != nil {
		t.y = unsafe.Pointer(&y[:all][0])
	}
	if ct != nil {
		t.ct = &ct[:all][0]
	}
	if gain != nil {
		t.gain = &gain[:n][0]
	}
	if bias != nil {
		t.bias = &bias[:n][0]
	}
	runNorm(v, l, t)
	return true
}

// columns runs a loop adding rows to the sums of columns, for as many columns as fill
// whole vectors, returning their number.
func columns(v kernel.Kind, l normLoop, sum []float64, x, ct []float32, pitch int, mean []float64, step int, inv []float64) int {
	if v == kernel.Portable || len(inv) == 0 {
		return 0
	}
	return columnsOf(v, l, &normArgs{mean: &mean[0], inv: &inv[0], step: 8 * step}, sum, x, ct, pitch, len(inv))
}

func columnsOf(v kernel.Kind, l normLoop, t *normArgs, sum []float64, x, ct []float32, pitch, rows int) int {
	n := len(sum) &^ (kernel.Lanes - 1)
	if n == 0 || rows <= 0 {
		return 0
	}
	_, _ = x[(rows-1)*pitch+n-1], ct[(rows-1)*pitch+n-1] // assembly does not check bounds
	t.rows, t.n, t.pitch = rows, n, 4*pitch
	t.x, t.ct, t.y = &x[0], &ct[0], unsafe.Pointer(&sum[0])
	runNorm(v, l, t)
	return n
}
