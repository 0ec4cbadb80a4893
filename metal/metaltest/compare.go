package metaltest

import (
	"fmt"
	"math"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal/kernels"
)

// near checks result i of the device against the host's. For ragged rows it compares only the rows
// in the zones.
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

// near returns an error unless all elements of got are within tol of want.
func near(got, want array.Array, tol kernels.Tolerance) error {
	d := tol.Compare(got, want)
	if d.Share <= 1 {
		return nil
	}
	g, w := valueAt(got, d.At), valueAt(want, d.At)
	switch {
	case want.Type.DType.Cotangent() == graph.NoDType:
		return fmt.Errorf("element %d is %v, want %v", d.At, g, w)
	case math.IsNaN(d.Largest) || math.IsInf(d.Largest, 0):
		return fmt.Errorf("element %d of %s is %v, want %v", d.At, want.Type, g, w)
	}
	if math.IsInf(d.Share, 1) {
		return fmt.Errorf("element %d of %s is %v, want %v: the largest difference is %.3g, more than %+v allows", d.At, want.Type, g, w, d.Largest, tol)
	}
	return fmt.Errorf("element %d of %s is %v, want %v: off by %.3g times what is allowed (the largest difference is %.3g, tolerance %+v)", d.At, want.Type, g, w, d.Share, d.Largest, tol)
}

// valueAt returns an element as text.
func valueAt(a array.Array, i int) any {
	switch a.Type.DType {
	case graph.F64, graph.F32, graph.F16, graph.BF16, graph.F8_E4M3, graph.F8_E5M2:
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

// aligned returns a copy of b with the alignment of arrays.
func aligned(b []byte) []byte {
	n := len(b) / 8
	a := array.New(graph.Type{DType: graph.I64, Shape: []int{n + 1}})
	copy(a.Bytes(), b)
	return a.Bytes()[:len(b)]
}
