package emu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A vector that is stored where only a scalar may lie is a fault: an array of scalars need
// not begin at a multiple of a vector's size. Only amd64 has stores that want it.
func TestMisalignedVector(t *testing.T) {
	const source = `#include <metal_stdlib>
using namespace metal;
template <typename T>
kernel void put(device float4* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  threadgroup T room[32];
  threadgroup float4* to = (threadgroup float4*)room;
  to[i] = out[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = to[7 - i];
}
template [[host_name("scalars")]] kernel decltype(put<float>) put<float>;
template [[host_name("vectors")]] kernel decltype(put<float4>) put<float4>;
`
	l := library(t, source, BuildOptions{})
	b, err := NewBuffer(128)
	require.NoError(t, err)
	defer b.Close()
	run := func(name string) error {
		return l.Run(t.Context(), Launch{Function: name, Threads: [3]int{8}, Buffers: []Binding{{Buffer: b}}})
	}
	require.NoError(t, run("vectors"))
	require.ErrorContains(t, run("scalars"), "a vector was read or written at an address that is no multiple of its size")
}
