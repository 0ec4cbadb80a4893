package emu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/counts"
)

// A kernel whose traffic is known does what its text says.
func TestCounts(t *testing.T) {
	l := library(t, `#include <metal_simdgroup_matrix>
constant float table[4] = {1, 2, 3, 4};
kernel void sums(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], constant int& n [[buffer(2)]],
                 uint group [[threadgroup_position_in_grid]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float room[64];
  float s = 0.0f;
  for (int k = 0; k < n; k++) {
    s += x[k * 64 + i] * x[k];
  }
  room[i] = s;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[group * 64 + i] = simd_sum(room[63 - i]) + exp(s) * table[i % 4];
}
kernel void product(device const half* a [[buffer(0)]], device float* c [[buffer(1)]]) {
  threadgroup half room[64];
  for (int i = 0; i < 64; i++) {
    room[i] = a[i];
  }
  simdgroup_half8x8 x, y;
  simdgroup_float8x8 z = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  simdgroup_load(x, room, 8);
  simdgroup_load(y, a, 8, ulong2(0, 0), true);
  simdgroup_multiply_accumulate(z, x, y, z);
  simdgroup_multiply_accumulate(z, x, y, z);
  simdgroup_store(z, c, 8);
}
kernel void adds(device atomic_int* x [[buffer(0)]]) {
  atomic_fetch_add_explicit(x, 1, memory_order_relaxed);
}
kernel void fours(device const float4* x [[buffer(0)]], device half4* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  y[i] = half4(x[i] * x[i] + 1.0f);
}
`, BuildOptions{Count: true})
	var c counts.Counts
	x, y := floats(t, 4*64), floats(t, 2*64)
	require.NoError(t, l.Run(t.Context(), Launch{Function: "sums", Groups: [3]int{2}, Threads: [3]int{64}, Buffers: []Binding{{Buffer: x}, {Buffer: y}, u32(4)}, Counts: &c}))
	const threads, n = 2 * 64, 4
	require.Equal(t, counts.Traffic{Loaded: threads * n * 8, Read: 2 * 4 * 64 * 4, Once: 4 * 64 * 4}, c.Buffers[0])
	require.Equal(t, counts.Traffic{Written: threads * 4}, c.Buffers[1])
	require.Equal(t, counts.Traffic{Loaded: threads * n * 8, Read: 2 * 4 * 64 * 4, Once: 4 * 64 * 4, Written: threads * 4}, c.Device)
	require.Equal(t, int64(4*threads), c.Constant.Loaded)
	require.Equal(t, counts.Traffic{Loaded: threads * 4, Written: threads * 4}, c.Threadgroup)
	require.Equal(t, int64(threads*4), c.Tables)
	require.Equal(t, []int64{2, 4, 1, 2}, []int64{c.Barriers, c.SIMDOperations, c.Dispatches, c.Threadgroups})
	// A step of the loop has a product and a sum, and its own counting; exp, a product and a sum follow.
	require.GreaterOrEqual(t, c.Operations, int64(threads*(2*n+3)))
	require.LessOrEqual(t, c.Operations, int64(threads*(6*n+24)))

	c = counts.Counts{}
	a := floats(t, 64)
	require.NoError(t, l.Run(t.Context(), Launch{Function: "product", Threads: [3]int{32}, Buffers: []Binding{{Buffer: a}, {Buffer: y}}, Counts: &c}))
	require.Equal(t, []int64{1024, 0}, []int64{c.Products16, c.Products32})
	require.Equal(t, counts.Traffic{Loaded: 128, Written: 32 * 128}, c.Threadgroup)
	require.Equal(t, counts.Traffic{Loaded: 33 * 128, Read: 128, Once: 128}, c.Buffers[0])
	require.Equal(t, counts.Traffic{Written: 256}, c.Buffers[1])
	require.Less(t, c.Operations, int64(32*64*4), "the emulation's own work does not count")

	c = counts.Counts{}
	require.NoError(t, l.Run(t.Context(), Launch{Function: "adds", Threads: [3]int{32}, Buffers: []Binding{{Buffer: a}}, Counts: &c}))
	require.Equal(t, counts.Traffic{Loaded: 128, Read: 4, Once: 4, Written: 128}, c.Device)

	c = counts.Counts{}
	require.NoError(t, l.Run(t.Context(), Launch{Function: "fours", Threads: [3]int{16}, Buffers: []Binding{{Buffer: a}, {Buffer: y}}, Counts: &c}))
	require.Equal(t, counts.Traffic{Loaded: 256, Read: 256, Once: 256, Written: 128}, c.Device)
	require.InDelta(t, 16*12, c.Operations, 64)

	// What does not count adds nothing, and a library that does not count has no counts.
	l = library(t, "kernel void f(device float* x [[buffer(0)]]) { x[0] = 1.0f; }", BuildOptions{})
	c = counts.Counts{}
	require.NoError(t, l.Run(t.Context(), Launch{Function: "f", Buffers: []Binding{{Buffer: y}}, Counts: &c}))
	require.Zero(t, c.Device)
}
