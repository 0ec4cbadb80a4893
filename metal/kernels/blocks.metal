// Elements of weights in blocks, as GGUF files hold them: see package quant for each type. An
// element is the product of its factors, rounded to f32 from left to right, so every product is a
// statement of its own.
#include "common.metal"
#include "iq2_grid.metal"
#include "iq3_grid.metal"

#define AS_Q8_0 16
#define AS_Q4_K 17
#define AS_Q6_K 18
#define AS_Q2_K 19
#define AS_IQ2_XXS 20
#define AS_MXFP4 21
#define AS_Q4_0 22
#define AS_Q4_1 23
#define AS_Q5_0 24
#define AS_Q5_1 25
#define AS_Q3_K 26
#define AS_Q5_K 27
#define AS_IQ3_XXS 28
#define AS_IQ4_NL 29
#define AS_IQ4_XS 30

static inline float block_half(device const uchar* b) { return float(*(device const half*)b); }

static inline float q8_0_element(device const uchar* b, int i) {
  return block_half(b) * float(char(b[2 + i]));
}

// Scales and offsets of 6 bits, for each 32 elements, of q4_k and q5_k.
static inline float scaled_in_block(device const uchar* b, int j, int q) {
  device const uchar* p = b + 4;
  int s, t;
  if (j < 4) {
    s = p[j] & 63;
    t = p[j + 4] & 63;
  } else {
    s = (p[j + 4] & 15) | (p[j - 4] >> 6 << 4);
    t = (p[j + 4] >> 4) | (p[j] >> 6 << 4);
  }
  float scale = block_half(b) * float(s);
  float offset = block_half(b + 2) * float(t);
  float x = scale * float(q);
  return x - offset;
}

static inline float q4_k_element(device const uchar* b, int i) {
  int j = i / 32;
  return scaled_in_block(b, j, b[16 + j / 2 * 32 + i % 32] >> (j % 2 * 4) & 15);
}

static inline float q5_k_element(device const uchar* b, int i) {
  int j = i / 32;
  int low = b[48 + j / 2 * 32 + i % 32] >> (j % 2 * 4) & 15;
  int high = b[16 + i % 32] >> j & 1;
  return scaled_in_block(b, j, low | high << 4);
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

static inline float q3_k_element(device const uchar* b, int i) {
  device const uchar* p = b + 96;
  int j = i / 16;
  int s = (p[j % 8] >> (j / 8 * 4) & 15) | (p[8 + j % 4] >> (j / 4 * 2) & 3) << 4;
  int low = b[32 + j / 8 * 32 + i % 32] >> (j % 8 / 2 * 2) & 3;
  int high = b[i % 32] >> (j / 2) & 1;
  float scale = block_half(b + 108) * float(s - 32);
  return scale * float((low | high << 2) - 4);
}

static inline uint four_bytes(device const uchar* p) {
  return uint(p[0]) | uint(p[1]) << 8 | uint(p[2]) << 16 | uint(p[3]) << 24;
}

// element i % 8 of 8 has its sign in the signs of 7. The sign of the eighth makes the number of
// negative ones even.
static inline float with_sign(float x, uint signs, int i) {
  uint seven = signs >> (7 * (i % 32 / 8)) & 127;
  uint eight = seven | (popcount(seven) & 1) << 7;
  return (eight >> (i % 8) & 1) != 0 ? -x : x;
}

static inline float iq2_xxs_element(device const uchar* b, int i) {
  device const uchar* p = b + 2 + i / 32 * 8;
  uint signs = four_bytes(p + 4);
  float scale = block_half(b) * (0.5f + float(signs >> 28));
  scale = scale * 0.25f;
  return with_sign(scale * float(iq2_grid[p[i % 32 / 8]] >> (i % 8 * 8) & 255), signs, i);
}

static inline float iq3_xxs_element(device const uchar* b, int i) {
  uint signs = four_bytes(b + 66 + i / 32 * 4);
  float scale = block_half(b) * (0.5f + float(signs >> 28));
  scale = scale * 0.5f;
  return with_sign(scale * float(iq3_grid[b[2 + i / 4]] >> (i % 4 * 8) & 255), signs, i);
}

// half_byte returns number i of 32 in 16 bytes: the first 16 are in the low halves.
static inline int half_byte(device const uchar* p, int i) {
  return i < 16 ? p[i] & 15 : p[i - 16] >> 4;
}

static inline float q4_0_element(device const uchar* b, int i) {
  return block_half(b) * float(half_byte(b + 2, i) - 8);
}

static inline float q4_1_element(device const uchar* b, int i) {
  float x = block_half(b) * float(half_byte(b + 4, i));
  return x + block_half(b + 2);
}

// five_bits returns number i of 32: 4 bytes have the highest bits, 16 the others.
static inline int five_bits(device const uchar* p, int i) {
  return half_byte(p + 4, i) | (p[i / 8] >> (i % 8) & 1) << 4;
}

static inline float q5_0_element(device const uchar* b, int i) {
  return block_half(b) * float(five_bits(b + 2, i) - 16);
}

static inline float q5_1_element(device const uchar* b, int i) {
  float x = block_half(b) * float(five_bits(b + 4, i));
  return x + block_half(b + 2);
}

constant char iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static inline float iq4_nl_element(device const uchar* b, int i) {
  return block_half(b) * float(iq4_values[half_byte(b + 2, i)]);
}

static inline float iq4_xs_element(device const uchar* b, int i) {
  int j = i / 32;
  int s = (b[4 + j / 2] >> (j % 2 * 4) & 15) | (b[2 + j / 4] >> (j % 4 * 2) & 3) << 4;
  float scale = block_half(b) * float(s - 32);
  return scale * float(iq4_values[half_byte(b + 8 + 16 * j, i % 32)]);
}

constant char mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// A value times 2^(e-128).
static inline float mxfp4_element(device const uchar* b, int i) {
  uint e = b[0];
  float scale = as_type<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
  return scale * float(mxfp4_values[half_byte(b + 1, i)]);
}

// block_bytes returns the bytes of n elements, which are whole blocks.
static inline ulong block_bytes(int as, uint n) {
  switch (as) {
    case AS_Q8_0: return ulong(n / 32) * 34;
    case AS_Q4_K: return ulong(n / 256) * 144;
    case AS_Q6_K: return ulong(n / 256) * 210;
    case AS_Q2_K: return ulong(n / 256) * 84;
    case AS_IQ2_XXS: return ulong(n / 256) * 66;
    case AS_MXFP4: return ulong(n / 32) * 17;
    case AS_Q4_0: return ulong(n / 32) * 18;
    case AS_Q4_1: return ulong(n / 32) * 20;
    case AS_Q5_0: return ulong(n / 32) * 22;
    case AS_Q5_1: return ulong(n / 32) * 24;
    case AS_Q3_K: return ulong(n / 256) * 110;
    case AS_Q5_K: return ulong(n / 256) * 176;
    case AS_IQ3_XXS: return ulong(n / 256) * 98;
    case AS_IQ4_NL: return ulong(n / 32) * 18;
    default: return ulong(n / 256) * 136;
  }
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
    case AS_MXFP4:
      return mxfp4_element(x + ulong(i / 32) * 17, int(i % 32));
    case AS_Q4_0:
      return q4_0_element(x + ulong(i / 32) * 18, int(i % 32));
    case AS_Q4_1:
      return q4_1_element(x + ulong(i / 32) * 20, int(i % 32));
    case AS_Q5_0:
      return q5_0_element(x + ulong(i / 32) * 22, int(i % 32));
    case AS_Q5_1:
      return q5_1_element(x + ulong(i / 32) * 24, int(i % 32));
    case AS_Q3_K:
      return q3_k_element(x + ulong(i / 256) * 110, int(i % 256));
    case AS_Q5_K:
      return q5_k_element(x + ulong(i / 256) * 176, int(i % 256));
    case AS_IQ3_XXS:
      return iq3_xxs_element(x + ulong(i / 256) * 98, int(i % 256));
    case AS_IQ4_NL:
      return iq4_nl_element(x + ulong(i / 32) * 18, int(i % 32));
    default:
      return iq4_xs_element(x + ulong(i / 256) * 136, int(i % 256));
  }
}
