package kernels

import (
	"bytes"
	"math"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// Difference is the difference between a result and the host kernel's.
type Difference struct {
	Largest float64 // |got − want| of any element; NaN or infinite if an element is not finite
	// Share is the largest fraction of the Tolerance used by an element's difference. The result is
	// right up to 1. Share is infinite where no difference is allowed.
	Share float64
	// At is the element with the largest share, 0 if no element differs.
	At int
}

// compared is the number of elements converted to f64 at once.
const compared = 1 << 16

// Compare returns the difference between got and want, which has the same length. Integers and
// weights in blocks must have the same bits, and so must floats if t is zero.
func (t Tolerance) Compare(got, want array.Array) Difference {
	d := want.Type.DType
	if d.Cotangent() == graph.NoDType {
		return compareBits(got, want)
	}
	largest := 0.0
	if t.OfMax != 0 {
		eachFloat(got, want, func(_ int, _, w float64) {
			if a := math.Abs(w); a > largest && !math.IsInf(a, 0) { // false for a NaN
				largest = a
			}
		})
	}
	exact := t.Absolute == 0 && t.Relative == 0 && t.OfMax == 0
	var out Difference
	eachFloat(got, want, func(i int, g, w float64) {
		if sameFloat(g, w) {
			return
		}
		off, allowed := math.Abs(g-w), 0.0
		if !exact && !math.IsInf(w, 0) && !math.IsNaN(w) {
			allowed = t.Absolute + t.Relative*math.Abs(w) + t.OfMax*largest + max(unit(d, w), unit(d, g))
		}
		share := math.Inf(1)
		switch {
		case off == 0 && !exact: // 0 and -0
			return
		case off < math.Inf(1) && allowed > 0:
			share = off / allowed
		}
		if math.IsNaN(off) || off > out.Largest {
			out.Largest = off
		}
		if share > out.Share {
			out.Share, out.At = share, i
		}
	})
	return out
}

// compareBits is Compare for integers and blocks.
func compareBits(got, want array.Array) Difference {
	g, w := got.Bytes(), want.Bytes()
	if bytes.Equal(g, w) {
		return Difference{}
	}
	i := 0
	for g[i] == w[i] {
		i++
	}
	e := i / max(1, len(w)/max(1, want.Type.Len()))
	off := math.NaN()
	if !want.Type.DType.IsBlock() {
		off, _ = array.MaxDiff(got, want)
	}
	return Difference{Largest: off, Share: math.Inf(1), At: e}
}

// eachFloat calls f with the elements of two arrays of the same float type.
func eachFloat(got, want array.Array, f func(i int, g, w float64)) {
	d := want.Type.DType
	part := func(a array.Array, from, to int) []float64 {
		return array.Over(graph.T(d, to-from), a.Bytes()[from*d.Size():to*d.Size()]).Float64s()
	}
	for from, n := 0, want.Type.Len(); from < n; from += compared {
		to := min(from+compared, n)
		g, w := part(got, from, to), part(want, from, to)
		for i := range w {
			f(from+i, g[i], w[i])
		}
	}
}

// sameFloat reports whether two numbers have the same bits; any two NaNs count as equal.
func sameFloat(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}

// unit returns the distance between adjacent numbers at x in a float type of 16 or 8 bits, 0 in
// other types.
func unit(d graph.DType, x float64) float64 {
	var digits, low int // bits of the significand, and the exponent of the smallest normal number
	switch d {
	case graph.F16:
		digits, low = 11, -14
	case graph.BF16:
		digits, low = 8, -126
	case graph.F8_E4M3:
		digits, low = 4, -6
	case graph.F8_E5M2:
		digits, low = 3, -14
	default:
		return 0
	}
	_, e := math.Frexp(x)
	return math.Ldexp(1, max(e-1, low)-digits+1)
}
