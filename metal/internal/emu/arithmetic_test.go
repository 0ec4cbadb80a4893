package emu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Products and sums are two roundings or one, as the build says.
func TestContraction(t *testing.T) {
	const source = `#include <metal_stdlib>
using namespace metal;
kernel void mixed(device float* y [[buffer(0)]], device const float* x [[buffer(1)]]) {
  y[0] = x[0] * x[1] + x[2];
  float p = x[0] * x[1];
  y[1] = p + x[2];
}
kernel void apart(device float* y [[buffer(0)]], device const float* x [[buffer(1)]]) {
#if __METAL_VERSION__ >= 320
#pragma METAL fp contract(off)
#else
#pragma clang fp contract(off)
#endif
  y[0] = x[0] * x[1] + x[2];
}
`
	const e = 1.0 / (1 << 12) // (1 + e)·(1 + e) - (1 + 2e) is e², which is lost if the product is rounded
	for contraction, want := range map[string][]float32{"": {0, 0}, "on": {e * e, 0}, "fast": {e * e, e * e}} {
		for _, old := range []bool{false, true} {
			l := library(t, source, BuildOptions{Contraction: contraction, Old: old})
			y := floats(t, 2)
			x := of(t, 1+e, 1+e, -1-2*e)
			require.NoError(t, l.Run(t.Context(), Launch{Function: "mixed", Buffers: []Binding{{Buffer: y}, {Buffer: x}}}))
			require.Equal(t, want, read(y), "contraction %q", contraction)
			if contraction != "fast" { // which heeds no pragma
				require.NoError(t, l.Run(t.Context(), Launch{Function: "apart", Buffers: []Binding{{Buffer: y}, {Buffer: x}}}))
				require.Zero(t, read(y)[0], "contraction %q against the pragma", contraction)
			}
		}
	}
}

// Numbers that are not normal are zeros where the launch says so, and only during it.
func TestFlush(t *testing.T) {
	l := library(t, `kernel void scale(device float* y [[buffer(0)]], device const float* x [[buffer(1)]]) {
  y[0] = x[0] * x[1];
  y[1] = x[2] * x[3];
}`, BuildOptions{})
	x := of(t, 0x1p-126, 0.5, 0x1p-127, 0x1p100)
	for _, flush := range []bool{true, false} {
		y := floats(t, 2)
		require.NoError(t, l.Run(t.Context(), Launch{Function: "scale", Buffers: []Binding{{Buffer: y}, {Buffer: x}}, Flush: flush, Workers: 1}))
		want := []float32{0x1p-127, 0x1p-27}
		if flush {
			want = []float32{0, 0}
		}
		require.Equal(t, want, read(y), "flush %v", flush)
	}
	small := read(x)[2]
	if small*2 != 0x1p-126 {
		t.Error("Go's arithmetic flushes too")
	}
}
