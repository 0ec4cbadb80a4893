// Operations along lines of an array, in their order: running sums, the place of an extreme, and
// the numbers of elements.
#include "exact.metal"

// running_sum writes sums of p[1] elements, upwards or, if p[3] is not 0, downwards, with a stride
// of p[2] elements; p[0] is the number of lines.
template <typename T>
kernel void running_sum(device const T* x [[buffer(0)]],
                        device T* y [[buffer(1)]],
                        constant int* p [[buffer(2)]],
                        uint gid [[thread_position_in_grid]]) {
  int i = int(gid);
  if (i < p[0]) {
    int first = i / p[2] * p[1] * p[2] + i % p[2];
    float2 s = float2(0.0f, 0.0f);
    for (int k = 0; k < p[1]; k++) {
      int at = first + (p[3] != 0 ? p[1] - 1 - k : k) * p[2];
      s = pair_add(s, float(x[at]));
      y[at] = T(pair_value(s));
    }
  }
}

template <typename T>
kernel void running_count(device const T* x [[buffer(0)]],
                          device T* y [[buffer(1)]],
                          constant int* p [[buffer(2)]],
                          uint gid [[thread_position_in_grid]]) {
  int i = int(gid);
  if (i < p[0]) {
    int first = i / p[2] * p[1] * p[2] + i % p[2];
    T s = T(0);
    for (int k = 0; k < p[1]; k++) {
      int at = first + (p[3] != 0 ? p[1] - 1 - k : k) * p[2];
      s = wrap_add(s, x[at]);
      y[at] = s;
    }
  }
}

// better reports whether x at i precedes y at j as the place of an extreme: a NaN does, otherwise
// the larger, or the smaller if least is set, and among equals the first. An index below 0 is none.
template <typename T>
static inline bool better(T x, int i, T y, int j, bool least) {
  if (i < 0 || j < 0) {
    return j < 0 && i >= 0;
  }
  bool nx = x != x;
  bool ny = y != y;
  if (nx || ny) {
    return nx && (!ny || i < j);
  }
  if (x == y) {
    return i < j;
  }
  return least ? x < y : x > y;
}

// extreme_place finds the extreme among p[1] elements, using 32 threads for each of p[0] lines;
// p[3] is not 0 for the smallest.
template <typename X, typename T>
kernel void extreme_place(device const X* x [[buffer(0)]],
                          device int* y [[buffer(1)]],
                          constant int* p [[buffer(2)]],
                          uint gid [[thread_position_in_grid]]) {
  int i = int(gid / 32);
  int lane = int(gid % 32);
  bool some = i < p[0];
  int first = some ? i / p[2] * p[1] * p[2] + i % p[2] : 0;
  T best = T(0);
  int place = -1;
  for (int k = lane; some && k < p[1]; k += 32) {
    T v = T(x[first + k * p[2]]);
    if (better(v, k, best, place, p[3] != 0)) {
      best = v;
      place = k;
    }
  }
  for (ushort mask = 16; mask > 0; mask /= 2) {
    T v = simd_shuffle_xor(best, mask);
    int k = simd_shuffle_xor(place, mask);
    if (better(v, k, best, place, p[3] != 0)) {
      best = v;
      place = k;
    }
  }
  if (some && lane == 0) {
    y[i] = max(place, 0);
  }
}

// number writes p[3], p[3] + 1 and so on along an axis of p[1] elements with a stride of p[2]; p[0]
// is the number of elements.
template <typename T>
static inline T number_as(int x) { return T(x); }
template <>
inline bfloat number_as<bfloat>(int x) { return bfloat(narrowable(x)); }
template <>
inline half number_as<half>(int x) { return half(narrowable(x)); }

template <typename T>
kernel void number(device T* y [[buffer(0)]],
                   constant int* p [[buffer(1)]],
                   uint gid [[thread_position_in_grid]]) {
  int i = int(gid);
  if (i < p[0]) {
    y[i] = number_as<T>(p[3] + i / p[2] % p[1]);
  }
}

#define ALONG(function, name, ...) template [[host_name(function "_" name)]] kernel decltype(__VA_ARGS__) __VA_ARGS__;

ALONG("running_sum", "f32", running_sum<float>)
ALONG("running_sum", "bf16", running_sum<bfloat>)
ALONG("running_sum", "f16", running_sum<half>)
ALONG("running_sum", "i32", running_count<int>)
ALONG("running_sum", "u32", running_count<uint>)
ALONG("running_sum", "u8", running_count<uchar>)
ALONG("extreme_place", "f32", extreme_place<float, float>)
ALONG("extreme_place", "bf16", extreme_place<bfloat, float>)
ALONG("extreme_place", "f16", extreme_place<half, float>)
ALONG("extreme_place", "i32", extreme_place<int, int>)
ALONG("extreme_place", "u32", extreme_place<uint, uint>)
ALONG("extreme_place", "u8", extreme_place<uchar, uint>)
ALONG("number", "f32", number<float>)
ALONG("number", "bf16", number<bfloat>)
ALONG("number", "f16", number<half>)
ALONG("number", "i32", number<int>)
ALONG("number", "u32", number<uint>)
ALONG("number", "u8", number<uchar>)
