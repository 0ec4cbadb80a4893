package reduce

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// A half is not rounded between its summands: 256 + 1 + 1 in bf16 would stay
// 256 if it were, and 2048 + 1 + 1 in f16 would stay 2048.
func TestHalvesRoundOnce(t *testing.T) {
	for _, tc := range []struct {
		d            graph.DType
		big, one, up uint16
	}{
		{graph.BF16, uint16(array.BrainOf(256)), uint16(array.BrainOf(1)), uint16(array.BrainOf(258))},
		{graph.F16, uint16(array.HalfOf(2048)), uint16(array.HalfOf(1)), uint16(array.HalfOf(2050))},
	} {
		var srcs [][]byte
		for _, h := range []uint16{tc.big, tc.one, tc.one} {
			srcs = append(srcs, binary.NativeEndian.AppendUint16(nil, h))
		}
		var a Accumulator
		if got := elements[array.Half](a.Block(Sum, tc.d, srcs, make([]byte, 2)))[0]; uint16(got) != tc.up {
			t.Errorf("%s: %#x + 2·%#x is %#x, want %#x", tc.d, tc.big, tc.one, got, tc.up)
		}
	}
}

// A sum with a NaN is a NaN in every float type. The conformance suite compares bits, so
// it does not test NaN.
func TestSumOfNaN(t *testing.T) {
	for _, d := range []graph.DType{graph.F16, graph.BF16, graph.F32, graph.F64} {
		nan, one := array.New(graph.T(d, 1)), array.New(graph.T(d, 1))
		if err := nan.SetFloat64s([]float64{math.NaN()}); err != nil {
			t.Fatal(err)
		}
		if err := one.SetFloat64s([]float64{1}); err != nil {
			t.Fatal(err)
		}
		var a Accumulator
		sum := array.New(graph.T(d, 1))
		copy(sum.Bytes(), a.Block(Sum, d, [][]byte{one.Bytes(), nan.Bytes(), one.Bytes()}, make([]byte, d.Size())))
		if x := sum.Float64s()[0]; x == x {
			t.Errorf("%s: 1 + NaN + 1 is %v", d, x)
		}
	}
}
