// Arithmetic with the host's roundings.
#include "common.metal"
#if __METAL_VERSION__ >= 320
#pragma METAL fp contract(off)
#else
#pragma clang fp contract(off)
#endif

// maximum and minimum are NaN where one is; -0 is less than 0.
static inline float maximum(float x, float y) {
  if (x != x || y != y) {
    return as_type<float>(0x7fc00000u);
  }
  if (x == y) {
    return as_type<float>(as_type<uint>(x) & as_type<uint>(y));
  }
  return x > y ? x : y;
}

static inline float minimum(float x, float y) {
  if (x != x || y != y) {
    return as_type<float>(0x7fc00000u);
  }
  if (x == y) {
    return as_type<float>(as_type<uint>(x) | as_type<uint>(y));
  }
  return x < y ? x : y;
}

static inline int maximum(int x, int y) { return x > y ? x : y; }
static inline int minimum(int x, int y) { return x < y ? x : y; }
static inline uint maximum(uint x, uint y) { return x > y ? x : y; }
static inline uint minimum(uint x, uint y) { return x < y ? x : y; }
static inline uchar maximum(uchar x, uchar y) { return x > y ? x : y; }
static inline uchar minimum(uchar x, uchar y) { return x < y ? x : y; }

// wrap_ functions compute with integers modulo 2 to the power of their bits; int alone leaves
// overflow undefined.
static inline int wrap_add(int x, int y) { return as_type<int>(as_type<uint>(x) + as_type<uint>(y)); }
static inline int wrap_sub(int x, int y) { return as_type<int>(as_type<uint>(x) - as_type<uint>(y)); }
static inline int wrap_mul(int x, int y) { return as_type<int>(as_type<uint>(x) * as_type<uint>(y)); }
static inline uint wrap_add(uint x, uint y) { return x + y; }
static inline uint wrap_sub(uint x, uint y) { return x - y; }
static inline uint wrap_mul(uint x, uint y) { return x * y; }
static inline uchar wrap_add(uchar x, uchar y) { return uchar((uint(x) + uint(y)) & 255u); }
static inline uchar wrap_sub(uchar x, uchar y) { return uchar((uint(x) - uint(y)) & 255u); }
static inline uchar wrap_mul(uchar x, uchar y) { return uchar((uint(x) * uint(y)) & 255u); }

// whole_div and whole_rem truncate towards 0; by 0 they return all bits set, and x.
static inline int whole_div(int x, int y) { return y == 0 ? -1 : y == -1 ? wrap_sub(0, x) : x / y; }
static inline int whole_rem(int x, int y) { return y == 0 ? x : y == -1 ? 0 : x % y; }
static inline uint whole_div(uint x, uint y) { return y == 0u ? 0xffffffffu : x / y; }
static inline uint whole_rem(uint x, uint y) { return y == 0u ? x : x % y; }
static inline uchar whole_div(uchar x, uchar y) { return y == 0 ? uchar(255) : uchar(uint(x) / uint(y)); }
static inline uchar whole_rem(uchar x, uchar y) { return y == 0 ? x : uchar(uint(x) % uint(y)); }

// remainder_of returns x - y·trunc(x/y), exactly, with x's sign: digit by digit.
static inline float remainder_of(float x, float y) {
  if (!isfinite(x) || y != y || y == 0.0f) {
    return as_type<float>(0x7fc00000u);
  }
  uint b = as_type<uint>(y) & 0x7fffffffu;
  uint a = as_type<uint>(x) & 0x7fffffffu;
  uint sign = as_type<uint>(x) & 0x80000000u;
  if (a < b) {
    return x;
  }
  int ea = int(a >> 23);
  int eb = int(b >> 23);
  uint ma = a & 0x7fffffu;
  uint mb = b & 0x7fffffu;
  if (ea > 0) {
    ma |= 0x800000u;
  } else {
    ea = 1;
  }
  if (eb > 0) {
    mb |= 0x800000u;
  } else {
    eb = 1;
  }
  for (; ea > eb; ea--) {
    ma = (ma >= mb ? ma - mb : ma) << 1;
  }
  ma = ma >= mb ? ma - mb : ma;
  if (ma == 0u) {
    return as_type<float>(sign);
  }
  while (ma < 0x800000u && eb > 1) {
    ma <<= 1;
    eb--;
  }
  if (ma < 0x800000u) {
    return as_type<float>(sign | ma);
  }
  return as_type<float>(sign | (ma & 0x7fffffu) | uint(eb) << 23);
}

// narrowable returns a float that bfloat and half round as they would the integer.
static inline float narrowable(uint m) {
  if (m >> 24 != 0u) {
    m = (m & ~255u) | ((m & 255u) != 0u ? 256u : 0u);
  }
  return float(m);
}
static inline float narrowable(int x) { return x < 0 ? -narrowable(0u - as_type<uint>(x)) : narrowable(as_type<uint>(x)); }

// Floats to integers: towards 0, the nearest bound if out of range, 0 for NaN.
static inline int to_int(float x) { return x >= 2147483648.0f ? 2147483647 : x <= -2147483648.0f ? -2147483647 - 1 : x != x ? 0 : int(x); }
static inline uint to_uint(float x) { return x >= 4294967296.0f ? 4294967295u : x > 0.0f ? uint(x) : 0u; }
static inline uchar to_uchar(float x) { return x >= 255.0f ? uchar(255) : x > 0.0f ? uchar(uint(x)) : uchar(0); }

// A pair is the unevaluated sum of two floats, with some 48 bits; if the first is not finite the
// second is arbitrary.
static inline float2 pair_add(float2 a, float x) {
  float s = a.x + x;
  float t = s - a.x;
  float e = (a.x - (s - t)) + (x - t);
  return float2(s, a.y + e);
}

static inline float2 pair_join(float2 a, float2 b) {
  float2 s = pair_add(a, b.x);
  return float2(s.x, s.y + b.y);
}

static inline float2 pair_product(float x, float y) {
  float p = x * y;
  return float2(p, fma(x, y, -p));
}

// pair_scale returns a·y of a pair whose parts do not overlap, and likewise.
static inline float2 pair_scale(float2 a, float y) {
  float2 p = pair_product(a.x, y);
  float low = fma(a.y, y, p.y);
  float s = p.x + low;
  return float2(s, low - (s - p.x));
}

static inline float pair_value(float2 a) { return isfinite(a.x) ? a.x + a.y : a.x; }
