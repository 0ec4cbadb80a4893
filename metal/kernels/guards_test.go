package kernels_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/metal/kernels"
)

// programIn returns what the device does for the first instruction of a name in a program.
func programIn(t *testing.T, text, name string) *kernels.Program {
	t.Helper()
	p, err := gomoe.Parse("t", text)
	require.NoError(t, err)
	_, prog := programOf(t, compiled(t, p, gomoe.Config{}), name, 0)
	return prog
}

// An index below 0 names no element of the line before. The step fails, and until then the
// result is 0.
func TestTakeAlongNegative(t *testing.T) {
	p := programIn(t, "program p(x f32[2,3], at i32[2,2]) {\n\ty = take_along_axis(x, at) axis=1\n\treturn y\n}", "take_along_axis")
	x, at, y := []float32{1, 2, 3, 4, 5, 6}, []int32{0, 2, -1, 1}, make([]float32, 4)
	record := launch(t, p, [][]byte{raw(x), raw(at)}, [][]byte{raw(y)})
	require.ErrorContains(t, p.Fault(record), "is -1, want 0 to 2")
	require.Equal(t, []float32{1, 3, 0, 5}, y)
}

// A place beyond the list of places, which no ep_prepare of the same layer makes, adds
// nothing to the sum.
func TestSumPlaceBeyond(t *testing.T) {
	p := programIn(t, `program p(ids i32[2,1], x f32[2,4]) {
	r, drop, n, pad, demand = ep_prepare(ids) experts=2
	rows = ep_dispatch(x, r) experts=2
	y = exp(rows)
	out = ep_combine(y, r) experts=2
	return out
}`, "ep_sum")
	rows := []float32{1, 2, 3, 4, 5, 6, 7, 8}
	order := []int32{0, 1, 1} // a list of two places, and what lies behind it
	out := make([]float32, 8)
	launch(t, p, [][]byte{raw(rows), raw([]int32{1, 2}), raw(order)}, [][]byte{raw(out)})
	require.Equal(t, []float32{5, 6, 7, 8, 0, 0, 0, 0}, out)
}

// Angles' sines and cosines, which are doubles, become the nearest floats, and of two as
// near the even one.
func TestRopeTies(t *testing.T) {
	p := programIn(t, "program p(x f32[1,1,1,8], t i32[1]) {\n\ty = rope(x, t)\n\treturn y\n}", "rope")
	const half = 1.0 / (1 << 24) // of a unit in the last place of 1
	cosines := []float64{1 + half, 1 + 3*half, 1 + half + half/2, -1 - 3*half}
	angles := raw(append(cosines, 0, 0, 0, 0)) // and sines
	x := []float32{1, 1, 1, 1, 0, 0, 0, 0}
	y := make([]float32, 8)
	launch(t, p, [][]byte{raw(x), angles}, [][]byte{raw(y)})
	for i, c := range cosines {
		if want := float32(c); y[i] != want {
			t.Errorf("%b becomes %b, want %b", c, y[i], want)
		}
	}
}

// The smallest scales of MXFP4, 2^-128 and 2^-127, are no normal floats.
func TestSmallScales(t *testing.T) {
	p := programIn(t, "program p(x f32[1,32], w mxfp4[2,32]) {\n\ty = dot_general(x, w) lhs_contract=[1] rhs_contract=[1]\n\treturn y\n}", "dot_general_blocks")
	x := make([]float32, 32)
	x[0] = 1 << 62
	w := make([]byte, 2*17)
	w[0], w[17] = 0, 1 // scales
	w[1], w[18] = 1, 1 // the first elements
	y := make([]float32, 2)
	launch(t, p, [][]byte{raw(x), w}, [][]byte{raw(y)})
	require.Equal(t, []float32{0x1p-66, 0x1p-65}, y)
}
