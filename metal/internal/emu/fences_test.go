package emu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A read of what another thread has written wants a barrier with the flag of the memory
// between: any other barrier waits, and orders other memory or none.
func TestFences(t *testing.T) {
	kernel := func(memory, barrier, other string) string {
		space := map[string]string{"device": "device float* room = extra;", "threadgroup": "threadgroup float room[64];"}[memory]
		return `#include <metal_stdlib>
using namespace metal;
kernel void exchange(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], device float* extra [[buffer(2)]], uint i [[thread_index_in_threadgroup]]) {
  ` + space + `
  room[i] = x[i];
  ` + barrier + `
  y[i] = room[` + other + `];
}
`
	}
	const missing = "and no barrier with mem_flags::mem_"
	for _, c := range []struct{ memory, barrier, other, want string }{
		{"threadgroup", "threadgroup_barrier(mem_flags::mem_threadgroup);", "63 - i", ""},
		{"threadgroup", "threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);", "63 - i", ""},
		{"threadgroup", "threadgroup_barrier(mem_flags::mem_device);", "63 - i", missing + "threadgroup"},
		{"threadgroup", "threadgroup_barrier(mem_flags::mem_none);", "63 - i", missing + "threadgroup"},
		{"threadgroup", "simdgroup_barrier(mem_flags::mem_threadgroup);", "i ^ 5", ""},
		{"threadgroup", "simdgroup_barrier(mem_flags::mem_threadgroup);", "63 - i", missing + "threadgroup"},
		{"threadgroup", "simdgroup_barrier(mem_flags::mem_device);", "i ^ 5", missing + "threadgroup"},
		{"threadgroup", "simd_sum(1.0f);", "i ^ 5", missing + "threadgroup"},
		{"device", "threadgroup_barrier(mem_flags::mem_device);", "63 - i", ""},
		{"device", "threadgroup_barrier(mem_flags::mem_threadgroup);", "63 - i", missing + "device"},
		{"device", "simdgroup_barrier(mem_flags::mem_device);", "i ^ 31", ""},
		{"device", "simdgroup_barrier(mem_flags::mem_none);", "i ^ 31", missing + "device"},
		{"device", "", "i", ""},
	} {
		l := library(t, kernel(c.memory, c.barrier, c.other), BuildOptions{Fences: true})
		err := l.Run(t.Context(), Launch{Function: "exchange", Threads: [3]int{64}, Buffers: []Binding{{Buffer: floats(t, 64)}, {Buffer: floats(t, 64)}, {Buffer: floats(t, 64)}}})
		if c.want == "" {
			require.NoError(t, err, "%+v", c)
			continue
		}
		require.ErrorContains(t, err, c.want, "%+v", c)
		if c.memory == "device" {
			require.ErrorContains(t, err, "buffer 2 (extra): byte")
		}
	}
}
