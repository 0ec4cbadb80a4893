#include <metal_stdlib>
using namespace metal;

constant int scale [[function_constant(0)]];
constant bool negate [[function_constant(1)]];

struct Shape {
  uint n;
  float add;
};

// out[i] = in[i] + shape.add
kernel void add(device const float* in [[buffer(0)]], device float* out [[buffer(1)]], constant Shape& shape [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  if (i < shape.n) out[i] = in[i] + shape.add;
}

// out[i] = in[i] times the constant scale, or minus that
kernel void multiply(device const float* in [[buffer(0)]], device float* out [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  float v = in[i] * float(scale);
  out[i] = negate ? -v : v;
}

// out[g] = the sum of the threadgroup's 64 inputs
kernel void sums(device const float* in [[buffer(0)]], device float* out [[buffer(1)]], threadgroup float* part [[threadgroup(0)]], uint g [[threadgroup_position_in_grid]],
                 uint t [[thread_index_in_threadgroup]]) {
  part[t] = in[64 * g + t];
  for (uint n = 32; n > 0; n /= 2) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t < n) part[t] += part[t + n];
  }
  if (t == 0) out[g] = part[0];
}

// out[3*(x+y*w+z*w*h)] is the thread's position, and behind all is the grid's size
kernel void positions(device uint* out [[buffer(0)]], uint3 p [[thread_position_in_grid]], uint3 size [[threads_per_grid]], uint3 group [[threads_per_threadgroup]]) {
  uint i = p.x + size.x * (p.y + size.y * p.z);
  out[3 * i] = p.x;
  out[3 * i + 1] = p.y;
  out[3 * i + 2] = p.z;
  if (i == 0) {
    uint n = 3 * size.x * size.y * size.z;
    out[n] = group.x;
    out[n + 1] = group.y;
    out[n + 2] = group.z;
  }
}

// every thread takes a barrier, but the last
kernel void divergent(device float* out [[buffer(0)]], uint t [[thread_index_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  if (t + 1 == n) {
    out[t] = simd_sum(1.0f);
  } else {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    out[t] = simd_sum(2.0f);
  }
}

// each thread writes far past the end of what it was given
kernel void overrun(device float* out [[buffer(0)]], uint t [[thread_index_in_threadgroup]]) { out[t + 100000] = 1.0f; }

// a loop that ends when somebody else writes
kernel void endless(device atomic_uint* flag [[buffer(0)]]) {
  while (atomic_load_explicit(flag, memory_order_relaxed) != 7u) {
  }
}
