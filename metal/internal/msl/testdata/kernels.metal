#include <metal_stdlib>
using namespace metal;

typedef half4 quad;
using row = vec<float, 8>;
constant bool bias [[function_constant(0)]];
constant const uint heads [[function_constant(600 + 3)]];
constant float table[2] = {0.5, 1.5e-3};

struct Sizes { uint n; float scale; };

// A plain kernel, buffers without attributes.
kernel void plain(device const float* x, constant Sizes& s, device float* y, uint i [[thread_position_in_grid]]) {
  y[i] = x[i] * 2. + .5 - 1e3 + 0x1F + 3u + 1.0f + 2.h;
}

// Threadgroup memory: two declarations in a row, several variables in one, and pointers.
[[kernel, max_total_threads_per_threadgroup(256)]] void memory(
    device float* y [[buffer(3)]], threadgroup float* rows [[threadgroup(1)]],
    ushort2 tid [[thread_position_in_threadgroup]], ushort2 all [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float a[16];
  threadgroup half4 b[2][8], c;
  threadgroup atomic_uint count;
  threadgroup float* p = a;
  threadgroup float *q = rows, *r = p;
  for (uint i = 0; i < 4; i++) {
    threadgroup uint inner[4];
    inner[i] = i;
  }
  y[0] = a[0] + p[1] + *(threadgroup float*)b + q[0] + r[0];
}

template <typename T, int N>
kernel void of(device T* y [[buffer(0)]], device const T* x [[buffer(1)]], uint3 i [[thread_position_in_grid]],
               uint simd [[simdgroup_index_in_threadgroup]]) {
  half4 h = (half4)x[0];
  float4 f = float4(h) + (float4)(h + h) + float4(1, 2, 3, 4) * -(float4)h;
  f = static_cast<float4>(h) + float4(quad(1)) + (quad)f;
  f += vec<float, 4>(h);
  y[i.x] = T(f.x) + (T)f.y + static_cast<T>(f.z) + T(N);
  const device half4* from = (const device half4*)(x + 1);
  *(device half4*)(y + 4) = from[0];
}

#define MAKE(name, T, N) template [[host_name("of_" #name)]] [[kernel]] decltype(of<T, N>) of<T, N>;
template [[host_name("of_f32")]] kernel void of<float, 3>(device float*, device const float*, uint3, uint);
template [[host_name("of_" "f16")]] [[kernel]] decltype(of<half, 2 * (1 + 1)>) of<half, 2 * (1 + 1)>;
