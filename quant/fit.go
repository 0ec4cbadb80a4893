package quant

import "math"

// fit returns a scale s ≥ 0 and an offset t ≥ 0 such that the values s·q - t, q in
// 0..top, approximate x. It tries some scales around the one covering the range of x. For
// each scale it picks every q and then solves for the best s and t.
func fit(x []float32, top int) (s, t float32) {
	lo, hi := float32(0), x[0] // the offset is never below 0
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	if hi <= lo {
		return 0, -lo
	}
	s, t = (hi-lo)/float32(top), -lo
	least := math.Inf(1)
	try := func(inverse float32) {
		n, sx, sq, sqq, sqx := float64(len(x)), 0.0, 0.0, 0.0, 0.0
		for _, v := range x {
			q := float64(nearest(inverse*(v-lo), 0, top))
			sx, sq, sqq, sqx = sx+float64(v), sq+q, sqq+float64(q*q), sqx+float64(q*float64(v))
		}
		det := float64(n*sqq) - float64(sq*sq)
		if det <= 0 {
			return
		}
		scale, offset := (float64(n*sqx)-float64(sq*sx))/det, (float64(sq*sqx)-float64(sqq*sx))/det
		if offset < 0 {
			scale, offset = sqx/sqq, 0
		}
		if scale <= 0 {
			return
		}
		err := 0.0
		for _, v := range x {
			q := float64(nearest(float32((float64(v)+offset)/scale), 0, top))
			d := float64(scale*q) - offset - float64(v)
			err += float64(d * d)
		}
		if err < least {
			least, s, t = err, float32(scale), float32(offset)
		}
	}
	for step := -10; step <= 10; step++ {
		try((float32(top) + float32(0.1*float32(step))) / (hi - lo))
	}
	return s, t
}

// fitSigned returns a scale s such that the values s·q, q in -top..top-1, approximate x.
// The sign of s is chosen so that the element of x with the largest absolute value may be
// -top.
func fitSigned(x []float32, top int) float32 {
	peak := float32(0)
	for _, v := range x {
		if math.Abs(float64(v)) > math.Abs(float64(peak)) {
			peak = v
		}
	}
	if peak == 0 {
		return 0
	}
	best, s := -1.0, -peak/float32(top)
	for step := -9; step <= 9; step++ {
		inverse := -(float32(top) + float32(0.1*float32(step))) / peak
		sqx, sqq := 0.0, 0.0
		for _, v := range x {
			q := float64(nearest(inverse*v, -top, top-1))
			sqx, sqq = sqx+float64(q*float64(v)), sqq+float64(q*q)
		}
		if sqq > 0 && sqx*sqx > best*sqq { // the error is Σx² - sqx²/sqq
			best, s = sqx*sqx/sqq, float32(sqx/sqq)
		}
	}
	return s
}

// ratio returns x/y, or 0 if y is 0.
func ratio(x, y float32) float32 {
	if y == 0 {
		return 0
	}
	return x / y
}
