// Rotary positions: pairs of elements of each head rotated by an angle. The host computes its sine
// and cosine in double precision.
#include "rows.metal"

struct Rope {
  int count; // pairs, including the ones only copied
  int rows;  // of angles; tokens take them in turn
  int n, half_d;
  int turned; // number of rotated pairs of a head
  int interleaved;
  float sign;
  int experts, align, per;
};

// narrow returns the float next to a double given by its bits, the lower word first, if that is
// neither too large nor below the smallest normal float: Metal has no doubles.
static inline float narrow(uint low, uint high) {
  int exponent = int(high >> 20 & 0x7ff) - 1023;
  if (exponent < -126) {
    return 0.0f;
  }
  uint fraction = (high & 0xfffff) << 3 | low >> 29;
  uint rest = low & 0x1fffffff;
  uint bits = (high & 0x80000000) | uint(exponent + 127) << 23 | fraction;
  if (rest > 0x10000000 || (rest == 0x10000000 && (fraction & 1) != 0)) {
    bits += 1; // to the nearest, or the even one; the carry goes into the exponent
  }
  return as_type<float>(bits);
}

template <typename T>
kernel void rope(device const T* x [[buffer(0)]], device const uint* angles [[buffer(1)]], device T* y [[buffer(2)]],
                 device const int* zones [[buffer(3)]], constant Rope& p [[buffer(4)]],
                 uint tid [[thread_position_in_grid]]) {
  int k = int(tid);
  if (k >= p.count) {
    return;
  }
  int i = k % p.half_d;
  int head = k / p.half_d;
  int token = head / p.n;
  int kind = row_kind(zones, p.experts, p.align, p.per, token);
  if (kind == ROW_PAST) {
    return;
  }
  int first = head * 2 * p.half_d;
  bool beside = p.interleaved != 0 || i >= p.turned;
  int a = first + (beside ? 2 * i : i);
  int b = first + (beside ? 2 * i + 1 : i + p.turned);
  if (kind == ROW_GAP) {
    y[a] = T(0.0f);
    y[b] = T(0.0f);
    return;
  }
  if (i >= p.turned) {
    y[a] = x[a];
    y[b] = x[b];
    return;
  }
  uint c = 2u * (2u * uint(token % p.rows) * uint(p.turned) + uint(i)), d = c + 2u * uint(p.turned);
  float cosine = narrow(angles[c], angles[c + 1]);
  float sine = p.sign * narrow(angles[d], angles[d + 1]);
  float x1 = float(x[a]), x2 = float(x[b]);
  y[a] = T(x1 * cosine - x2 * sine);
  y[b] = T(x2 * cosine + x1 * sine);
}

#define INSTANTIATE(suffix, T) template [[host_name("rope_" #suffix)]] [[kernel]] decltype(rope<T>) rope<T>;
INSTANTIATE(f32, float)
INSTANTIATE(f16, half)
INSTANTIATE(bf16, bfloat)
