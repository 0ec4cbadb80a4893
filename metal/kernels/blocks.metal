// Elements of weights in blocks, as GGUF files hold them: what package quant says of each type.
// An element is what its factors' products are, rounded to f32 from left to right, so every
// product is a statement of its own.
#include "common.metal"
#include "iq2_grid.metal"

#define AS_Q8_0 16
#define AS_Q4_K 17
#define AS_Q6_K 18
#define AS_Q2_K 19
#define AS_IQ2_XXS 20
#define AS_MXFP4 21

static inline float block_half(device const uchar* b) { return float(*(device const half*)b); }

static inline float q8_0_element(device const uchar* b, int i) {
  return block_half(b) * float(char(b[2 + i]));
}

// Scales and offsets of 6 bits, for each 32 elements.
static inline float q4_k_element(device const uchar* b, int i) {
  device const uchar* p = b + 4;
  int j = i / 32;
  int s, t;
  if (j < 4) {
    s = p[j] & 63;
    t = p[j + 4] & 63;
  } else {
    s = (p[j + 4] & 15) | (p[j - 4] >> 6 << 4);
    t = (p[j + 4] >> 4) | (p[j] >> 6 << 4);
  }
  int q = b[16 + j / 2 * 32 + i % 32] >> (j % 2 * 4) & 15;
  float scale = block_half(b) * float(s);
  float offset = block_half(b + 2) * float(t);
  float x = scale * float(q);
  return x - offset;
}

static inline float q6_k_element(device const uchar* b, int i) {
  int j = i / 16, part = j / 8, k = j % 8, at = i % 16;
  int low = b[part * 64 + k % 4 * 16 + at] >> (k / 4 * 4) & 15;
  int high = b[128 + part * 32 + k % 2 * 16 + at] >> (k / 2 * 2) & 3;
  float scale = block_half(b + 208) * float(char(b[192 + j]));
  return scale * float((low | high << 4) - 32);
}

static inline float q2_k_element(device const uchar* b, int i) {
  int j = i / 16;
  int q = b[16 + j / 8 * 32 + j % 2 * 16 + i % 16] >> (j % 8 / 2 * 2) & 3;
  float scale = block_half(b + 80) * float(b[j] & 15);
  float offset = block_half(b + 82) * float(b[j] >> 4);
  float x = scale * float(q);
  return x - offset;
}

// The sign of an eighth element makes the number of negative ones even.
static inline float iq2_xxs_element(device const uchar* b, int i) {
  device const uchar* p = b + 2 + i / 32 * 8;
  int l = i % 32 / 8, k = i % 8;
  uint signs = uint(p[4]) | uint(p[5]) << 8 | uint(p[6]) << 16 | uint(p[7]) << 24;
  uint seven = signs >> (7 * l) & 127;
  uint eight = seven | (popcount(seven) & 1) << 7;
  float scale = block_half(b) * (0.5f + float(signs >> 28));
  scale = scale * 0.25f;
  float x = scale * float(iq2_grid[p[l]] >> (8 * k) & 255);
  return (eight >> k & 1) != 0 ? -x : x;
}

// 0, ±1, ±2, ±3, ±4, ±6, ±8 and ±12 times 2^(e-128).
static inline float mxfp4_element(device const uchar* b, int i) {
  int q = i < 16 ? b[1 + i] & 15 : b[1 + i - 16] >> 4;
  int size = q & 7;
  int value = size < 5 ? size : size == 5 ? 6 : size == 6 ? 8 : 12;
  uint e = b[0];
  float scale = as_type<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
  return scale * float((q & 8) != 0 ? -value : value);
}

// block_number returns element i of an array, whose rows are whole blocks.
static inline float block_number(device const uchar* x, int as, uint i) {
  switch (as) {
    case AS_Q8_0:
      return q8_0_element(x + ulong(i / 32) * 34, int(i % 32));
    case AS_Q4_K:
      return q4_k_element(x + ulong(i / 256) * 144, int(i % 256));
    case AS_Q6_K:
      return q6_k_element(x + ulong(i / 256) * 210, int(i % 256));
    case AS_Q2_K:
      return q2_k_element(x + ulong(i / 256) * 84, int(i % 256));
    case AS_IQ2_XXS:
      return iq2_xxs_element(x + ulong(i / 256) * 66, int(i % 256));
    default:
      return mxfp4_element(x + ulong(i / 32) * 17, int(i % 32));
  }
}
