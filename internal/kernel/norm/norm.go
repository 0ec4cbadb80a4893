package norm

import (
	"math"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// Norms compute in float64 and round once. A sum along a row has 16 partial sums: sum k
// adds the elements k, k+16, k+32 and so on. Then sums 8 apart are added, then sums 4, 2
// and 1 apart. Products are rounded before being added. So results have the same bits
// with all kernels and on every machine.

// RMSNorm sets y = x·inv·gain, inv = 1/√(mean(x²) + eps), for rows of n elements.
func RMSNorm[T kernel.Float](y, x, gain []T, n int, eps float64) {
	rmsNormOf(kernel.VectorsOf[T](), y, x, gain, n, eps)
}

func rmsNormOf[T kernel.Float](v kernel.Kind, y, x, gain []T, n int, eps float64) {
	if t := (normArgs{eps: eps}); norm(v, normRMS, &t, n, kernel.Float32s(x), kernel.Float32s(gain), nil, nil, kernel.Float32s(y)) {
		return
	}
	for r := 0; r+n <= len(x) && n > 0; r += n {
		row, to := x[r:][:n], y[r:][:n]
		inv := inverseRMS(row, eps)
		for i, v := range row {
			to[i] = T(float64(v) * inv * float64(gain[i]))
		}
	}
}

// RMSNormGrad sets dx to the cotangent of RMSNorm's x, given ct, the cotangent of y:
//
//	dx = inv·(ct·gain - x·inv²·mean(ct·gain·x))
func RMSNormGrad[T kernel.Float](dx, x, gain, ct []T, n int, eps float64) {
	rmsNormGradOf(kernel.VectorsOf[T](), dx, x, gain, ct, n, eps)
}

func rmsNormGradOf[T kernel.Float](v kernel.Kind, dx, x, gain, ct []T, n int, eps float64) {
	if t := (normArgs{eps: eps}); norm(v, normRMSGrad, &t, n, kernel.Float32s(x), kernel.Float32s(gain), nil, kernel.Float32s(ct), kernel.Float32s(dx)) {
		return
	}
	for r := 0; r+n <= len(x) && n > 0; r += n {
		row, c, to := x[r:][:n], ct[r:][:n], dx[r:][:n]
		inv := inverseRMS(row, eps)
		var dots [kernel.Lanes]float64
		for i, v := range row {
			dots[i&(kernel.Lanes-1)] += float64(float64(c[i]) * float64(gain[i]) * float64(v))
		}
		dot := laneTotal(&dots) * (inv * inv / float64(n))
		for i, v := range row {
			to[i] = T(inv * (float64(float64(c[i])*float64(gain[i])) - float64(float64(v)*dot)))
		}
	}
}

// RMSInverse sets inv[r] = 1/√(mean(x²) + eps), where x is row r of n elements.
func RMSInverse[T kernel.Float](inv []float64, x []T, n int, eps float64) {
	rmsInverseOf(kernel.VectorsOf[T](), inv, x, n, eps)
}

func rmsInverseOf[T kernel.Float](v kernel.Kind, inv []float64, x []T, n int, eps float64) {
	x = x[:len(inv)*n]
	if t := (normArgs{eps: eps, inv: unsafe.SliceData(inv)}); norm(v, normRMSInverse, &t, n, kernel.Float32s(x), nil, nil, nil, nil) {
		return
	}
	for r := range inv {
		inv[r] = inverseRMS(x[r*n:][:n], eps)
	}
}

// LayerNorm sets y = (x - mean)·inv·gain + bias, inv = 1/√(variance + eps), for rows of n
// elements. The variance is computed from x - mean, so a large mean costs no digits.
func LayerNorm[T kernel.Float](y, x, gain, bias []T, n int, eps float64) {
	layerNormOf(kernel.VectorsOf[T](), y, x, gain, bias, n, eps)
}

func layerNormOf[T kernel.Float](v kernel.Kind, y, x, gain, bias []T, n int, eps float64) {
	if t := (normArgs{eps: eps}); norm(v, normLayer, &t, n, kernel.Float32s(x), kernel.Float32s(gain), kernel.Float32s(bias), nil, kernel.Float32s(y)) {
		return
	}
	for r := 0; r+n <= len(x) && n > 0; r += n {
		row, to := x[r:][:n], y[r:][:n]
		mean, inv := moments(row, eps)
		for i, v := range row {
			to[i] = T(float64((float64(v)-mean)*inv*float64(gain[i])) + float64(bias[i]))
		}
	}
}

// LayerNormGrad sets dx to the cotangent of LayerNorm's x, given ct, the cotangent of y:
//
//	dx = inv·(c - mean(c) - (x - mean)·inv²·mean(c·(x - mean))),   c = ct·gain
func LayerNormGrad[T kernel.Float](dx, x, gain, ct []T, n int, eps float64) {
	layerNormGradOf(kernel.VectorsOf[T](), dx, x, gain, ct, n, eps)
}

func layerNormGradOf[T kernel.Float](v kernel.Kind, dx, x, gain, ct []T, n int, eps float64) {
	if t := (normArgs{eps: eps}); norm(v, normLayerGrad, &t, n, kernel.Float32s(x), kernel.Float32s(gain), nil, kernel.Float32s(ct), kernel.Float32s(dx)) {
		return
	}
	for r := 0; r+n <= len(x) && n > 0; r += n {
		row, c, to := x[r:][:n], ct[r:][:n], dx[r:][:n]
		mean, inv := moments(row, eps)
		var sums, dots [kernel.Lanes]float64
		for i, v := range row {
			g := float64(float64(c[i]) * float64(gain[i]))
			sums[i&(kernel.Lanes-1)] += g
			dots[i&(kernel.Lanes-1)] += float64(g * (float64(v) - mean))
		}
		sum := laneTotal(&sums) / float64(n)
		dot := laneTotal(&dots) * (inv * inv / float64(n))
		for i, v := range row {
			to[i] = T(inv * (float64(float64(c[i])*float64(gain[i])) - sum - float64((float64(v)-mean)*dot)))
		}
	}
}

// Moments sets mean[r] and inv[r] = 1/√(variance + eps) for row r of n elements of x.
func Moments[T kernel.Float](mean, inv []float64, x []T, n int, eps float64) {
	momentsOf(kernel.VectorsOf[T](), mean, inv, x, n, eps)
}

func momentsOf[T kernel.Float](v kernel.Kind, mean, inv []float64, x []T, n int, eps float64) {
	mean, x = mean[:len(inv)], x[:len(inv)*n]
	if t := (normArgs{eps: eps, mean: unsafe.SliceData(mean), inv: unsafe.SliceData(inv)}); norm(v, normMoments, &t, n, kernel.Float32s(x), nil, nil, nil, nil) {
		return
	}
	for r := range inv {
		mean[r], inv[r] = moments(x[r*n:][:n], eps)
	}
}

// AddGain adds ct[r,i]·(x[r,i] - mean[r])·inv[r] to sum[i] for every row r, in the order
// of rows. Rows of x and ct have a stride of pitch elements, and their first elements are
// the columns of sum. A nil mean counts as 0.
func AddGain[T kernel.Float](sum []float64, x, ct []T, pitch int, mean, inv []float64) {
	addGainOf(kernel.VectorsOf[T](), sum, x, ct, pitch, mean, inv)
}

func addGainOf[T kernel.Float](v kernel.Kind, sum []float64, x, ct []T, pitch int, mean, inv []float64) {
	zero, step := [1]float64{}, 0
	if mean == nil {
		mean = zero[:]
	} else {
		mean, step = mean[:len(inv)], 1
	}
	done := columns(v, normAddGain, sum, kernel.Float32s(x), kernel.Float32s(ct), pitch, mean, step, inv)
	for r, k := range inv {
		m, x, ct := mean[r*step], x[r*pitch:][:len(sum)], ct[r*pitch:][:len(sum)]
		for i := done; i < len(sum); i++ {
			sum[i] += float64(float64(ct[i]) * (float64(x[i]) - m) * k)
		}
	}
}

// AddBias adds ct[r,i] to sum[i] for every row r, in the order of rows. Rows of ct have a
// stride of pitch elements.
func AddBias[T kernel.Float](sum []float64, ct []T, pitch, rows int) {
	addBiasOf(kernel.VectorsOf[T](), sum, ct, pitch, rows)
}

func addBiasOf[T kernel.Float](v kernel.Kind, sum []float64, ct []T, pitch, rows int) {
	done := 0
	if v != kernel.Portable {
		done = columnsOf(v, normAddBias, &normArgs{}, sum, kernel.Float32s(ct), kernel.Float32s(ct), pitch, rows)
	}
	for r := range rows {
		ct := ct[r*pitch:][:len(sum)]
		for i := done; i < len(sum); i++ {
			sum[i] += float64(ct[i])
		}
	}
}

// Turn rotates the pairs (x, w) to (y, z), by angles shared by all heads. For element i
// of head h, at h·pitch+i in all four slices, it sets
//
//	y = x cos - w sin,   z = w cos + x sin
//
// in float64, with cos[i] and sign·sin[i]. y may be x, and z may be w.
func Turn[T kernel.Float](y, z, x, w []T, pitch, heads int, cos, sin []float64, sign float64) {
	turnOf(kernel.VectorsOf[T](), y, z, x, w, pitch, heads, cos, sin, sign)
}

func turnOf[T kernel.Float](v kernel.Kind, y, z, x, w []T, pitch, heads int, cos, sin []float64, sign float64) {
	n := len(cos)
	sin = sin[:n]
	if n == 0 || heads <= 0 {
		return
	}
	last := (heads-1)*pitch + n - 1
	_, _, _, _ = y[last], z[last], x[last], w[last] // assembly does not check bounds
	if v != kernel.Portable && n%kernel.Lanes == 0 {
		runNorm(v, normTurn, &normArgs{rows: heads, n: n, pitch: 4 * pitch, count: sign, x: &kernel.Float32s(x)[0], ct: &kernel.Float32s(w)[0], y: unsafe.Pointer(&y[0]), gain: &kernel.Float32s(z)[0],
			mean: &cos[0], inv: &sin[0]})
		return
	}
	for h := range heads {
		for i, c := range cos {
			at, s := h*pitch+i, sign*sin[i]
			x1, x2 := float64(x[at]), float64(w[at])
			y[at] = T(float64(x1*c) - float64(x2*s))
			z[at] = T(float64(x2*c) + float64(x1*s))
		}
	}
}

// laneTotal adds 16 sums: first sums 8 apart, then 4, 2 and 1 apart.
func laneTotal(s *[kernel.Lanes]float64) float64 {
	for apart := kernel.Lanes / 2; apart > 0; apart /= 2 {
		for i := range apart {
			s[i] += s[i+apart]
		}
	}
	return s[0]
}

func inverseRMS[T kernel.Float](x []T, eps float64) float64 {
	var sums [kernel.Lanes]float64
	for i, v := range x {
		sums[i&(kernel.Lanes-1)] += float64(float64(v) * float64(v))
	}
	return 1 / math.Sqrt(laneTotal(&sums)/float64(len(x))+eps)
}

func moments[T kernel.Float](x []T, eps float64) (mean, inv float64) {
	var sums, squares [kernel.Lanes]float64
	for i, v := range x {
		sums[i&(kernel.Lanes-1)] += float64(v)
	}
	mean = laneTotal(&sums) / float64(len(x))
	for i, v := range x {
		d := float64(v) - mean
		squares[i&(kernel.Lanes-1)] += float64(d * d)
	}
	return mean, 1 / math.Sqrt(laneTotal(&squares)/float64(len(x))+eps)
}
