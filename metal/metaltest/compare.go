package metaltest

import (
	"bytes"
	"fmt"
	"math"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal/kernels"
)

// near checks result i of the device against the host's: of ragged rows those
// of zones.
func (m *memory) near(i int, want array.Array, mem []byte, tol kernels.Tolerance) error {
	got := array.Over(want.Type, aligned(mem))
	if m.outRag[i] {
		n := len(m.rows.used)
		if want.Type.Shape[0] < n {
			return fmt.Errorf("zones of %d rows in %d", n, want.Type.Shape[0])
		}
		want, got = want.Rows(0, n), got.Rows(0, n)
	}
	return near(got, want, tol)
}

// near checks all elements.
func near(got, want array.Array, tol kernels.Tolerance) error {
	if !want.Type.DType.IsFloat() || want.Type.DType.IsBlock() {
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			i := 0
			for got.Bytes()[i] == want.Bytes()[i] {
				i++
			}
			e := i / max(1, len(want.Bytes())/max(1, want.Type.Len()))
			return fmt.Errorf("element %d is %v, want %v", e, valueAt(got, e), valueAt(want, e))
		}
		return nil
	}
	g, w := got.Float64s(), want.Float64s()
	largest := 0.0
	for _, x := range w {
		if a := math.Abs(x); a > largest && !math.IsInf(a, 0) {
			largest = a
		}
	}
	exact := tol.Absolute == 0 && tol.Relative == 0 && tol.OfMax == 0
	worst, excess := -1, 0.0
	for i := range w {
		if same(g[i], w[i]) {
			continue
		}
		allowed := 0.0
		if !exact && !math.IsInf(w[i], 0) && !math.IsNaN(w[i]) {
			allowed = tol.Absolute + tol.Relative*math.Abs(w[i]) + tol.OfMax*largest + max(unit(want.Type.DType, w[i]), unit(want.Type.DType, g[i]))
		}
		d := math.Abs(g[i] - w[i])
		if !exact && d <= allowed { // 0 and -0 are as far, and other bits
			continue
		}
		if math.IsNaN(d) || math.IsInf(d, 0) {
			return fmt.Errorf("element %d of %s is %v, want %v", i, want.Type, g[i], w[i])
		}
		if d-allowed > excess || worst < 0 {
			worst, excess = i, d-allowed
		}
	}
	if worst >= 0 {
		d := math.Abs(g[worst] - w[worst])
		return fmt.Errorf("element %d of %s is %v, want %v: off by %.3g, %.3g too much (largest %.3g, tolerance %+v)", worst, want.Type, g[worst], w[worst], d, excess, largest, tol)
	}
	return nil
}

// same reports whether two numbers have the same bits, but that any NaN is one.
func same(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}

// unit returns the distance of neighbouring numbers at x in a narrow type, 0 in others.
func unit(d graph.DType, x float64) float64 {
	var digits, low int // of the significand, and the exponent of the least normal number
	switch d {
	case graph.F16:
		digits, low = 11, -14
	case graph.BF16:
		digits, low = 8, -126
	default:
		return 0
	}
	_, e := math.Frexp(x)
	return math.Ldexp(1, max(e-1, low)-digits+1)
}

// valueAt returns an element as text.
func valueAt(a array.Array, i int) any {
	switch a.Type.DType {
	case graph.F64, graph.F32, graph.F16, graph.BF16:
		return a.Float64s()[i]
	case graph.I32:
		return array.Data[int32](a)[i]
	case graph.U32:
		return array.Data[uint32](a)[i]
	case graph.I64:
		return array.Data[int64](a)[i]
	}
	if b := a.Bytes(); i < len(b) {
		return b[i]
	}
	return "?"
}

// aligned returns a copy of bytes that begins where arrays may.
func aligned(b []byte) []byte {
	n := len(b) / 8
	a := array.New(graph.Type{DType: graph.I64, Shape: []int{n + 1}})
	copy(a.Bytes(), b)
	return a.Bytes()[:len(b)]
}
