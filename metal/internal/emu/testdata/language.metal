// Every CHECK that does not hold adds its line to the list at bad.
#include <metal_stdlib>
using namespace metal;

#define CHECK(...) do { if (!(__VA_ARGS__)) { bad[1 + bad[0]] = __LINE__; bad[0]++; } } while (false)

struct Pair { float a; half b; };
typedef half4 quad;
template <typename T> struct Wrapped { T v; };

static inline float helper(threadgroup const float* p, device const float* q, constant float& c, thread float& out) {
  out = p[0] + q[0] + c;
  return out;
}

kernel void vectors(device int* bad [[buffer(0)]]) {
  float4 a = float4(1, 2, 3, 4);
  CHECK(a.x == 1 && a.w == 4 && all(a.wzyx == float4(4, 3, 2, 1)));
  CHECK(all(float4(a.xy, a.zw) == a) && all(float4(float3(1, 2, 3), 4) == a) && all(float4(7) == float4(7, 7, 7, 7)));
  a.xz = float2(9, 8);
  CHECK(a.x == 9 && a.y == 2 && a.z == 8);
  half4 h = half4(a);
  CHECK(h.x == 9.0h && all(float4(h) == a) && all((float4)h == a) && all(static_cast<float4>(h) == a));
  CHECK((-(float4)h).x == -9 && ((float4)h * 2.0f).y == 4);
  CHECK(dot(float3(1, 2, 3), float3(4, 5, 6)) == 32);
  CHECK(all(uint4(float4(1.9f, 2.1f, 3, 4)) == uint4(1, 2, 3, 4)) && all(int3(int(-1)) == int3(-1, -1, -1)));
  CHECK(any(a > 8.5f) && !any(a > 9.5f) && all(select(float2(1, 2), float2(3, 4), bool2(false, true)) == float2(1, 4)));
  CHECK(all(max(a, float4(3)) == float4(9, 3, 8, 4)) && all(min(a, 3.0f) == float4(3, 2, 3, 3)) && all(clamp(a, 3.0f, 8.0f) == float4(8, 3, 8, 4)));
  packed_float3 p = packed_float3(float3(1, 2, 3));
  CHECK(sizeof(p) == 12 && sizeof(float3) == 16 && sizeof(half3) == 8 && float3(p).z == 3 && p[1] == 2);
  quad q = quad(h);
  CHECK(q.y == 2.0h && ((quad)a).z == 8.0h && all((vec<half, 4>)a == h) && all(vec<float, 4>(q) == a));
  uint u = as_type<uint>(1.0f);
  CHECK(u == 0x3f800000u && as_type<float>(u) == 1.0f && all(as_type<ushort2>(u) == ushort2(0, 0x3f80)) && as_type<half>(ushort(0x3c00)) == 1.0h);
  float m[4] = {0};
  CHECK(m[3] == 0);
  bool4 b = bool4(a > float4(2.5f));
  CHECK(b[0] && !b[1] && all(int4(b) == int4(1, 0, 1, 1)));
  CHECK(0.1 == 0.1f && sizeof(0.1) == 4 && 1e-3 == 1e-3f && sizeof(1.0h) == 2);
  Wrapped<half> w = {2.0h};
  CHECK(w.v == 2.0h);
}

kernel void narrow(device int* bad [[buffer(0)]]) {
  half h = half(2049.0f);
  CHECK(float(h) == 2048.0f && half(65520.0f) == half(INFINITY) && half(1.0f) + half(0.0004f) == half(1.0f));
  half sum = 2048.0h;
  sum += 1.0h;
  CHECK(sum == 2048.0h);
  half third = half(1.0f) / half(3.0f);
  CHECK(as_type<ushort>(third) == 0x3555);
  half3 hh = half3(half(2048.0f)) + half3(1.0h);
  CHECK(hh.y == 2048.0h);
  bfloat c = bfloat(1.00390625f), d = bfloat(1.01171875f);
  CHECK(float(c) == 1.0f && float(d) == 1.015625f);
  bfloat e = bfloat(256.0f);
  e += bfloat(1.0f);
  CHECK(float(e) == 256.0f);
  CHECK(as_type<ushort>(bfloat(1.0f)) == 0x3f80 && isnan(float(bfloat(NAN))) && float(bfloat(INFINITY)) == INFINITY);
  bfloat4 v = bfloat4(float4(1, 2, 3, 257));
  CHECK(float(v.w) == 256.0f && all(float4(v).xyz == float3(1, 2, 3)));
  CHECK(float(as_type<half>(ushort(1))) == 5.9604644775390625e-8f);
  CHECK(numeric_limits<half>::max() == 65504.0h && float(numeric_limits<bfloat>::max()) > 3e38f && numeric_limits<int>::min() == -2147483647 - 1);
  CHECK(numeric_limits<float>::infinity() == INFINITY && numeric_limits<uchar>::max() == 255 && numeric_limits<long>::max() == 0x7fffffffffffffff);
  CHECK(is_same_v<half, half> && !is_same_v<half, bfloat> && is_floating_point_v<bfloat> && is_integral_v<ushort>);
}

static inline bool about(float a, float b) { return abs(a - b) <= 2e-6f * max(1.0f, abs(b)); }

kernel void maths(device int* bad [[buffer(0)]]) {
  CHECK(about(exp(1.0f), M_E_F) && about(log(M_E_F), 1) && about(tanh(0.5f), 0.46211716f) && about(exp2(0.5f), M_SQRT2_F) && about(exp10(2.0f), 100));
  CHECK(about(precise::exp(1.0f), M_E_F) && about(fast::log(M_E_F), 1) && about(metal::precise::tanh(0.5f), 0.46211716f) && about(fast::divide(1.0f, 4.0f), 0.25f));
  CHECK(rsqrt(4.0f) == 0.5f && sqrt(9.0f) == 3 && about(sin(1.0f), 0.841471f) && about(pow(2.0f, 10.0f), 1024) && about(log2(8.0f), 3));
  CHECK(fma(3.0f, 4.0f, 5.0f) == 17 && fma(1.0001220703125f, 1.0001220703125f, -1.0f) != 1.0001220703125f * 1.0001220703125f - 1.0f);
  CHECK(floor(-1.5f) == -2 && ceil(1.2f) == 2 && trunc(-1.7f) == -1 && rint(2.5f) == 2 && round(2.5f) == 3 && fract(1.25f) == 0.25f);
  CHECK(clamp(5.0f, 0.0f, 1.0f) == 1 && saturate(-1.0f) == 0 && mix(1.0f, 3.0f, 0.5f) == 2 && sign(-2.0f) == -1 && step(1.0f, 2.0f) == 1 && sign(0.0f) == 0);
  CHECK(max(1.0f, NAN) == 1 && min(NAN, 2.0f) == 2 && isnan(NAN) && isinf(INFINITY) && isfinite(1.0f) && !isnan(half(1)));
  CHECK(abs(-3) == 3 && abs(-3.5h) == 3.5h && max(3u, 4u) == 4 && min(ushort(3), ushort(4)) == 3 && clamp(-4, -2, 2) == -2 && max3(1, 5, 2) == 5);
  CHECK(exp(1.0h) == half(M_E_F) && half(tanh(0.5h)) == half(0.46211716f) && all(exp(float2(0, 1)) == float2(1, exp(1.0f))));
  CHECK(popcount(0xF0F0u) == 8 && clz(1u) == 31 && clz(ushort(1)) == 15 && ctz(8u) == 3 && clz(0u) == 32 && popcount(uchar(255)) == 8 && popcount(-1) == 32);
  CHECK(rotate(0x80000001u, 1u) == 3 && reverse_bits(1u) == 0x80000000u && extract_bits(0xABCDu, 4, 8) == 0xBC && insert_bits(0u, 5u, 4, 3) == 0x50 && extract_bits(0xF0, 4, 4) == -1);
  CHECK(mulhi(0x80000000u, 4u) == 2 && mulhi(-1, 1) == -1 && addsat(uchar(250), uchar(10)) == 255 && subsat(3u, 5u) == 0 && absdiff(3u, 5u) == 2);
  int e;
  float c;
  CHECK(frexp(8.0f, e) == 0.5f && e == 4 && ldexp(0.5f, 4) == 8 && about(sincos(1.0f, c), 0.841471f) && about(c, 0.5403023f));
  CHECK(fmod(7.0f, 3.0f) == 1 && copysign(2.0f, -0.0f) == -2 && atan2(1.0f, 1.0f) > 0.785f && fmax(1.0f, 2.0f) == 2);
}

kernel void spaces(device int* bad [[buffer(0)]], device const float* q [[buffer(1)]], constant float& c [[buffer(2)]], device float4* v [[buffer(3)]]) {
  threadgroup float a[4];
  a[0] = 2;
  float out = 0;
  CHECK(helper(a, q, c, out) == 2 + q[0] + c && out == 2 + q[0] + c);
  threadgroup half* h = (threadgroup half*)a;
  CHECK(h[1] == 2.0h && *(threadgroup ushort*)(h + 1) == 0x4000);
  device float* f = (device float*)v;
  f[5] = 3;
  CHECK(v[1].y == 3);
  device const uchar* bytes = (device const uchar*)(f + 5);
  CHECK(bytes[3] == 0x40 && (ulong)bytes % 4 == 0);
}

constant bool quick [[function_constant(0)]];
constant uint width [[function_constant(1)]];
constant float scale [[function_constant(2)]];
constant float table[4] = {0.5, 1.5, 2.5, 3.5};

kernel void constants(device float* y [[buffer(0)]]) {
  y[0] = quick ? scale * float(width) : -1.0;
  y[1] = table[2];
}

kernel void positions(device uint* y [[buffer(0)]], uint3 grid [[thread_position_in_grid]], uint3 in [[thread_position_in_threadgroup]],
                      uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
                      uint simd [[simdgroup_index_in_threadgroup]], ushort3 size [[threads_per_threadgroup]], uint3 groups [[threadgroups_per_grid]],
                      uint3 all [[threads_per_grid]], uint simds [[simdgroups_per_threadgroup]], uint width_ [[threads_per_simdgroup]]) {
  uint at = ((grid.z * all.y + grid.y) * all.x + grid.x) * 8;
  y[at] = grid.x + 100 * grid.y + 10000 * grid.z;
  y[at + 1] = in.x + 100 * in.y + 10000 * in.z;
  y[at + 2] = group.x + 100 * group.y + 10000 * group.z;
  y[at + 3] = index;
  y[at + 4] = lane + 100 * simd;
  y[at + 5] = size.x + 100 * size.y + 10000 * size.z;
  y[at + 6] = groups.x + 100 * groups.y + 10000 * groups.z;
  y[at + 7] = all.x + 100 * simds + 10000 * width_;
}
