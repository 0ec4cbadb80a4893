// Mathematical, relational and integer functions. half and bfloat are
// computed in f32 and rounded once.
#pragma once
#pragma clang system_header
#include "vectors.h"

namespace metal {
// Functions of one and of two floating-point arguments, from the C library.
#define MSL_F1(name, builtin)                                                                   \
  MSL_INLINE float name(float x) { return __builtin_##builtin##f(x); }                          \
  MSL_INLINE half name(half x) { return (half)__builtin_##builtin##f((float)x); }               \
  MSL_INLINE bfloat name(bfloat x) { return (bfloat)__builtin_##builtin##f((float)x); }         \
  template <class V, class = msl_if_vec<V>>                                                     \
  MSL_INLINE V name(V v) {                                                                      \
    V r;                                                                                        \
    for (int i = 0; i < msl_vt<V>::N; i++) r[i] = name((msl_elem<V>)v[i]);                      \
    return r;                                                                                   \
  }                                                                                             \
  template <class I, class = msl_if_int<I>, int = 0>                                            \
  MSL_INLINE float name(I x) { return __builtin_##builtin##f((float)x); }
#define MSL_F2(name, builtin)                                                                             \
  MSL_INLINE float name(float x, float y) { return __builtin_##builtin##f(x, y); }                        \
  MSL_INLINE half name(half x, half y) { return (half)__builtin_##builtin##f((float)x, (float)y); }       \
  MSL_INLINE bfloat name(bfloat x, bfloat y) { return (bfloat)__builtin_##builtin##f((float)x, (float)y); } \
  template <class V, class = msl_if_vec<V>>                                                               \
  MSL_INLINE V name(V v, V w) {                                                                           \
    V r;                                                                                                  \
    for (int i = 0; i < msl_vt<V>::N; i++) r[i] = name((msl_elem<V>)v[i], (msl_elem<V>)w[i]);             \
    return r;                                                                                             \
  }                                                                                                       \
  template <class S, class V, class = enable_if_t<(msl_vt<V>::N > 0) && is_arithmetic_v<S>>>              \
  MSL_INLINE V name(S a, V b) { return name(V((msl_elem<V>)a), b); }                                      \
  template <class V, class S, class = enable_if_t<(msl_vt<V>::N > 0) && is_arithmetic_v<S>>, int = 0>     \
  MSL_INLINE V name(V a, S b) { return name(a, V((msl_elem<V>)b)); }
MSL_F1(exp, exp) MSL_F1(exp2, exp2) MSL_F1(log, log) MSL_F1(log2, log2) MSL_F1(log10, log10)
MSL_F1(sin, sin) MSL_F1(cos, cos) MSL_F1(tan, tan) MSL_F1(asin, asin) MSL_F1(acos, acos) MSL_F1(atan, atan)
MSL_F1(sinh, sinh) MSL_F1(cosh, cosh) MSL_F1(tanh, tanh) MSL_F1(asinh, asinh) MSL_F1(acosh, acosh) MSL_F1(atanh, atanh)
MSL_F1(sqrt, sqrt) MSL_F1(floor, floor) MSL_F1(ceil, ceil) MSL_F1(trunc, trunc) MSL_F1(round, round) MSL_F1(rint, rint) MSL_F1(fabs, fabs)
MSL_F2(pow, pow) MSL_F2(powr, pow) MSL_F2(fmod, fmod) MSL_F2(atan2, atan2) MSL_F2(copysign, copysign) MSL_F2(fmin, fmin) MSL_F2(fmax, fmax)

// Functions that are expressions in f32.
#define MSL_G1(name, expr)                                                                                 \
  MSL_INLINE float name(float x) { return expr; }                                                          \
  MSL_INLINE half name(half y) { float x = (float)y; return (half)(expr); }                                \
  MSL_INLINE bfloat name(bfloat y) { float x = (float)y; return (bfloat)(expr); }                          \
  template <class V, class = msl_if_vec<V>>                                                                \
  MSL_INLINE V name(V v) {                                                                                 \
    V r;                                                                                                   \
    for (int i = 0; i < msl_vt<V>::N; i++) r[i] = name((msl_elem<V>)v[i]);                                 \
    return r;                                                                                              \
  }
MSL_G1(rsqrt, 1.0f / __builtin_sqrtf(x))
MSL_G1(exp10, __builtin_powf(10.0f, x))
MSL_G1(sinpi, __builtin_sinf(x * M_PI_F))
MSL_G1(cospi, __builtin_cosf(x * M_PI_F))
MSL_G1(fract, x - __builtin_floorf(x))
MSL_G1(saturate, x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f)
MSL_G1(sign, x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x == x ? x : 0.0f)

MSL_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MSL_INLINE half fma(half a, half b, half c) { return (half)__builtin_fmaf((float)a, (float)b, (float)c); }
MSL_INLINE bfloat fma(bfloat a, bfloat b, bfloat c) { return (bfloat)__builtin_fmaf((float)a, (float)b, (float)c); }
template <class V, class = msl_if_vec<V>>
MSL_INLINE V fma(V a, V b, V c) {
  V r;
  for (int i = 0; i < msl_vt<V>::N; i++) r[i] = fma((msl_elem<V>)a[i], (msl_elem<V>)b[i], (msl_elem<V>)c[i]);
  return r;
}
template <class T> MSL_INLINE T mad(T a, T b, T c) { return a * b + c; }

// min, max and clamp. With a NaN the other argument is the result.
#define MSL_MINMAX(T)                                                               \
  MSL_INLINE constexpr T min(T a, T b) { return b < a ? b : a; }                    \
  MSL_INLINE constexpr T max(T a, T b) { return a < b ? b : a; }                    \
  MSL_INLINE constexpr T clamp(T x, T lo, T hi) { return min(max(x, lo), hi); }
MSL_MINMAX(char) MSL_MINMAX(int8_t) MSL_MINMAX(uchar) MSL_MINMAX(short) MSL_MINMAX(ushort) MSL_MINMAX(int) MSL_MINMAX(uint) MSL_MINMAX(long) MSL_MINMAX(ulong)
#define MSL_MINMAX_FLOAT(T)                                                             \
  MSL_INLINE constexpr T min(T a, T b) { return a < b ? a : (b == b ? b : a); }         \
  MSL_INLINE constexpr T max(T a, T b) { return a > b ? a : (b == b ? b : a); }         \
  MSL_INLINE constexpr T clamp(T x, T lo, T hi) { return min(max(x, lo), hi); }
MSL_MINMAX_FLOAT(float) MSL_MINMAX_FLOAT(half) MSL_MINMAX_FLOAT(bfloat)
#define MSL_MINMAX_VECTOR(name)                                                                          \
  template <class V, class = msl_if_vec<V>>                                                              \
  MSL_INLINE V name(V a, V b) {                                                                          \
    V r;                                                                                                 \
    for (int i = 0; i < msl_vt<V>::N; i++) r[i] = name((msl_elem<V>)a[i], (msl_elem<V>)b[i]);            \
    return r;                                                                                            \
  }                                                                                                      \
  template <class V, class = msl_if_vec<V>>                                                              \
  MSL_INLINE V name(V a, msl_elem<V> b) { return name(a, V(b)); }
MSL_MINMAX_VECTOR(min) MSL_MINMAX_VECTOR(max)
template <class V, class = msl_if_vec<V>> MSL_INLINE V clamp(V x, V lo, V hi) { return min(max(x, lo), hi); }
template <class V, class = msl_if_vec<V>> MSL_INLINE V clamp(V x, msl_elem<V> lo, msl_elem<V> hi) { return min(max(x, V(lo)), V(hi)); }
template <class T> MSL_INLINE T min3(T a, T b, T c) { return min(a, min(b, c)); }
template <class T> MSL_INLINE T max3(T a, T b, T c) { return max(a, max(b, c)); }

template <class T>
MSL_INLINE T abs(T x) {
  if constexpr (msl_is_vec<T>) {
    return __builtin_elementwise_abs(x);
  } else if constexpr (is_floating_point_v<T>) {
    return fabs(x);
  } else {
    return x < (T)0 ? (T)-x : x;
  }
}
template <class T> MSL_INLINE T absdiff(T a, T b) { return a < b ? b - a : a - b; }
template <class T> MSL_INLINE T mix(T a, T b, T t) { return a + (b - a) * t; }
template <class V, class = msl_if_vec<V>> MSL_INLINE V mix(V a, V b, msl_elem<V> t) { return a + (b - a) * t; }
template <class T> MSL_INLINE T step(T e, T x) { return x < e ? (T)0 : (T)1; }
template <class T> MSL_INLINE T divide(T a, T b) { return a / b; }
MSL_INLINE float ldexp(float x, int e) { return __builtin_ldexpf(x, e); }
MSL_INLINE half ldexp(half x, int e) { return (half)__builtin_ldexpf((float)x, e); }
MSL_INLINE float frexp(float x, int& e) { return __builtin_frexpf(x, &e); }
MSL_INLINE float modf(float x, float& ip) { return __builtin_modff(x, &ip); }
MSL_INLINE float sincos(float x, float& c) { c = __builtin_cosf(x); return __builtin_sinf(x); }
MSL_INLINE float nextafter(float a, float b) { return __builtin_nextafterf(a, b); }

// Relational functions.
#define MSL_IS(name, expr)                                                                                \
  MSL_INLINE bool name(float x) { return expr; }                                                          \
  MSL_INLINE bool name(half y) { float x = (float)y; return expr; }                                       \
  MSL_INLINE bool name(bfloat y) { float x = (float)y; return expr; }                                     \
  template <class V, class = msl_if_vec<V>>                                                               \
  MSL_INLINE vec<bool, msl_vt<V>::N> name(V v) {                                                          \
    vec<bool, msl_vt<V>::N> r;                                                                            \
    for (int i = 0; i < msl_vt<V>::N; i++) r[i] = name((msl_elem<V>)v[i]);                                \
    return r;                                                                                             \
  }
MSL_IS(isnan, x != x) MSL_IS(isinf, __builtin_isinf(x) != 0) MSL_IS(isfinite, __builtin_isfinite(x) != 0)
MSL_IS(isnormal, __builtin_isnormal(x) != 0) MSL_IS(signbit, __builtin_signbit(x) != 0)
template <class T, class C>
MSL_INLINE T select(T a, T b, C c) {
  if constexpr (msl_is_vec<T>) {
    T r;
    for (int i = 0; i < msl_vt<T>::N; i++) r[i] = c[i] ? b[i] : a[i];
    return r;
  } else {
    return c ? b : a;
  }
}
template <class V>
MSL_INLINE bool all(V v) {
  if constexpr (msl_is_vec<V>) {
    bool r = true;
    for (int i = 0; i < msl_vt<V>::N; i++) r = r && v[i];
    return r;
  } else {
    return v;
  }
}
template <class V>
MSL_INLINE bool any(V v) {
  if constexpr (msl_is_vec<V>) {
    bool r = false;
    for (int i = 0; i < msl_vt<V>::N; i++) r = r || v[i];
    return r;
  } else {
    return v;
  }
}

// Geometric functions.
template <class V, class = msl_if_vec<V>>
MSL_INLINE msl_elem<V> dot(V a, V b) {
  msl_elem<V> s = a[0] * b[0];
  for (int i = 1; i < msl_vt<V>::N; i++) s += a[i] * b[i];
  return s;
}
template <class V, class = msl_if_vec<V>> MSL_INLINE msl_elem<V> length_squared(V a) { return dot(a, a); }
template <class V, class = msl_if_vec<V>> MSL_INLINE msl_elem<V> length(V a) { return sqrt(dot(a, a)); }
template <class V, class = msl_if_vec<V>> MSL_INLINE V normalize(V a) { return a * rsqrt(dot(a, a)); }

// Integer functions. Bits are counted in an unsigned type of the same width.
template <class I> MSL_INLINE unsigned long long msl_bits(I x) {
  return (unsigned long long)x & (sizeof(I) == 8 ? ~0ull : (1ull << (sizeof(I) * 8 % 64)) - 1);
}
#define MSL_I1(name, expr)                                                             \
  template <class I, class = msl_if_int<I>>                                            \
  MSL_INLINE I name(I x) { return (I)(expr); }                                         \
  template <class V, class = msl_if_vec<V>, int = 0>                                   \
  MSL_INLINE V name(V v) {                                                             \
    V r;                                                                               \
    for (int i = 0; i < msl_vt<V>::N; i++) r[i] = name((msl_elem<V>)v[i]);             \
    return r;                                                                          \
  }
MSL_I1(popcount, __builtin_popcountll(msl_bits(x)))
MSL_I1(clz, x == 0 ? sizeof(I) * 8 : __builtin_clzll(msl_bits(x)) - (64 - sizeof(I) * 8))
MSL_I1(ctz, x == 0 ? sizeof(I) * 8 : __builtin_ctzll(msl_bits(x)))
MSL_I1(reverse_bits, __builtin_bitreverse64(msl_bits(x)) >> (64 - sizeof(I) * 8))
template <class I> MSL_INLINE I rotate(I x, I n) {
  unsigned b = sizeof(I) * 8, k = (unsigned)n & (b - 1);
  return k ? (I)(msl_bits(x) << k | msl_bits(x) >> (b - k)) : x;
}
template <class I> MSL_INLINE I extract_bits(I x, uint offset, uint bits) {
  if (bits == 0) return 0;
  unsigned long long v = msl_bits(x) >> offset;
  if (bits < 64) v &= (1ull << bits) - 1;
  if (__is_signed(I) && bits < 64 && (v >> (bits - 1) & 1)) v |= ~0ull << bits;
  return (I)v;
}
template <class I> MSL_INLINE I insert_bits(I base, I insert, uint offset, uint bits) {
  unsigned long long m = (bits < 64 ? (1ull << bits) - 1 : ~0ull) << offset;
  return (I)((msl_bits(base) & ~m) | (msl_bits(insert) << offset & m));
}
MSL_INLINE int mulhi(int a, int b) { return (int)(((long)a * b) >> 32); }
MSL_INLINE uint mulhi(uint a, uint b) { return (uint)(((ulong)a * b) >> 32); }
MSL_INLINE long mulhi(long a, long b) { return (long)(((__int128)a * b) >> 64); }
MSL_INLINE ulong mulhi(ulong a, ulong b) { return (ulong)(((unsigned __int128)a * b) >> 64); }
template <class I> MSL_INLINE I madhi(I a, I b, I c) { return mulhi(a, b) + c; }
template <class I> MSL_INLINE I addsat(I a, I b) {
  I r;
  if (!__builtin_add_overflow(a, b, &r)) return r;
  return __is_signed(I) && a < (I)0 ? numeric_limits<I>::min() : numeric_limits<I>::max();
}
template <class I> MSL_INLINE I subsat(I a, I b) {
  I r;
  if (!__builtin_sub_overflow(a, b, &r)) return r;
  return __is_signed(I) && a >= (I)0 ? numeric_limits<I>::max() : numeric_limits<I>::min();
}

#define MSL_NAMED                                                                                                              \
  using metal::exp; using metal::exp2; using metal::exp10; using metal::log; using metal::log2; using metal::log10;            \
  using metal::sin; using metal::cos; using metal::tan; using metal::asin; using metal::acos; using metal::atan;               \
  using metal::sinh; using metal::cosh; using metal::tanh; using metal::asinh; using metal::acosh; using metal::atanh;         \
  using metal::sqrt; using metal::rsqrt; using metal::floor; using metal::ceil; using metal::trunc; using metal::round;        \
  using metal::rint; using metal::fabs; using metal::abs; using metal::pow; using metal::powr; using metal::fmod;              \
  using metal::atan2; using metal::fmin; using metal::fmax; using metal::min; using metal::max; using metal::clamp;            \
  using metal::divide; using metal::fma; using metal::fract; using metal::saturate; using metal::sign; using metal::sincos;    \
  using metal::sinpi; using metal::cospi; using metal::ldexp; using metal::frexp; using metal::modf; using metal::copysign;
namespace fast { MSL_NAMED }
namespace precise { MSL_NAMED }
}  // namespace metal
