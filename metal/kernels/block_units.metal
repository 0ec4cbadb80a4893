// Units of weights in blocks: 32 elements decoded together by one thread, so that it reads a
// block's scales once for all of them, and no byte of quants is read by two threads. A row has a
// unit for every 32 elements. Elements have the bits of block_number.
#include "blocks.metal"

// A unit's elements are determined by its bytes. In blocks of 256 with several numbers per byte, 32
// elements apart, unit p of 8 has elements 4p to 4p+3 of every 32; if they are 16 apart, it has 2p,
// 2p+1 and the elements 16 after these; all other units are 32 consecutive elements.
#define UNIT_ROW 0
#define UNIT_FOURS 1
#define UNIT_TWOS 2

static constexpr int unit_shape(int as) {
  return as == AS_Q4_K || as == AS_Q5_K || as == AS_Q6_K || as == AS_Q2_K || as == AS_Q3_K ? UNIT_FOURS
         : as == AS_IQ4_XS                                                                 ? UNIT_TWOS
                                                                                           : UNIT_ROW;
}

// unit_start returns the start of unit u of a row, in elements.
static inline uint unit_start(int as, uint u) {
  const int shape = unit_shape(as);
  if (shape == UNIT_ROW) {
    return u * 32;
  }
  return u / 8 * 256 + u % 8 * (shape == UNIT_FOURS ? 4 : 2);
}

// unit_element returns the offset of element e of a unit from the unit's start.
static inline uint unit_element(int as, int e) {
  const int shape = unit_shape(as);
  if (shape == UNIT_ROW) {
    return uint(e);
  }
  return uint(shape == UNIT_FOURS ? e / 4 * 32 + e % 4 : e / 4 * 32 + e % 4 / 2 * 16 + e % 2);
}

// unit_scaled decodes 4 elements of q4_k and q5_k, of the 32 with number j, computing scale and
// offset once.
static inline void unit_scaled(device const uchar* b, float d, float dmin, int j, thread const int* q, thread float* out) {
  device const uchar* p = b + 4;
  const int s = j < 4 ? p[j] & 63 : (p[j + 4] & 15) | (p[j - 4] >> 6 << 4);
  const int t = j < 4 ? p[j + 4] & 63 : (p[j + 4] >> 4) | (p[j] >> 6 << 4);
  const float scale = d * float(s), offset = dmin * float(t);
  UNROLL
  for (int e = 0; e < 4; e++) {
    const float x = scale * float(q[e]);
    out[e] = x - offset;
  }
}

// unit_halves decodes blocks of 32 whose 16 bytes at p have two numbers each.
#define UNIT_HALVES(p, value)                                \
  UNROLL                                                     \
  for (int e = 0; e < 16; e++) {                             \
    const int byte = (p)[e];                                 \
    {                                                        \
      const int q = byte & 15, i = e;                        \
      (void)i;                                               \
      out[i] = value;                                        \
    }                                                        \
    {                                                        \
      const int q = byte >> 4, i = e + 16;                   \
      (void)i;                                               \
      out[i] = value;                                        \
    }                                                        \
  }

// block_unit writes the elements of unit u of a row of blocks.
static inline void block_unit(device const uchar* row, int as, uint u, thread float* out) {
  const int p = int(u % 8);
  switch (as) {
    case AS_Q8_0: {
      device const uchar* b = row + u * 34;
      const float d = block_half(b);
      UNROLL
      for (int e = 0; e < 32; e++) {
        out[e] = d * float(char(b[2 + e]));
      }
      return;
    }
    case AS_Q4_0: {
      device const uchar* b = row + u * 18;
      const float d = block_half(b);
      UNIT_HALVES(b + 2, d * float(q - 8))
      return;
    }
    case AS_Q4_1: {
      device const uchar* b = row + u * 20;
      const float d = block_half(b), m = block_half(b + 2);
      UNROLL
      for (int e = 0; e < 16; e++) {
        const float low = d * float(b[4 + e] & 15), high = d * float(b[4 + e] >> 4);
        out[e] = low + m;
        out[e + 16] = high + m;
      }
      return;
    }
    case AS_Q5_0: {
      device const uchar* b = row + u * 22;
      const float d = block_half(b);
      const uint fifth = four_bytes(b + 2);
      UNIT_HALVES(b + 6, d * float((q | int(fifth >> i & 1) << 4) - 16))
      return;
    }
    case AS_Q5_1: {
      device const uchar* b = row + u * 24;
      const float d = block_half(b), m = block_half(b + 2);
      const uint fifth = four_bytes(b + 4);
      UNROLL
      for (int e = 0; e < 16; e++) {
        const float low = d * float((b[8 + e] & 15) | int(fifth >> e & 1) << 4), high = d * float((b[8 + e] >> 4) | int(fifth >> (e + 16) & 1) << 4);
        out[e] = low + m;
        out[e + 16] = high + m;
      }
      return;
    }
    case AS_IQ4_NL: {
      device const uchar* b = row + u * 18;
      const float d = block_half(b);
      UNIT_HALVES(b + 2, d * float(iq4_values[q]))
      return;
    }
    case AS_MXFP4: {
      device const uchar* b = row + u * 17;
      const uint exponent = b[0];
      const float d = as_type<float>(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
      UNIT_HALVES(b + 1, d * float(mxfp4_values[q]))
      return;
    }
    case AS_Q4_K: {
      device const uchar* b = row + u / 8 * 144;
      const float d = block_half(b), dmin = block_half(b + 2);
      UNROLL
      for (int j = 0; j < 8; j += 2) {
        int low[4], high[4];
        UNROLL
        for (int e = 0; e < 4; e++) {
          const int byte = b[16 + j / 2 * 32 + 4 * p + e];
          low[e] = byte & 15;
          high[e] = byte >> 4;
        }
        unit_scaled(b, d, dmin, j, low, out + 4 * j);
        unit_scaled(b, d, dmin, j + 1, high, out + 4 * j + 4);
      }
      return;
    }
    case AS_Q5_K: {
      device const uchar* b = row + u / 8 * 176;
      const float d = block_half(b), dmin = block_half(b + 2);
      const uint fifth = four_bytes(b + 16 + 4 * p);
      UNROLL
      for (int j = 0; j < 8; j += 2) {
        int low[4], high[4];
        UNROLL
        for (int e = 0; e < 4; e++) {
          const int byte = b[48 + j / 2 * 32 + 4 * p + e];
          low[e] = (byte & 15) | int(fifth >> (8 * e + j) & 1) << 4;
          high[e] = (byte >> 4) | int(fifth >> (8 * e + j + 1) & 1) << 4;
        }
        unit_scaled(b, d, dmin, j, low, out + 4 * j);
        unit_scaled(b, d, dmin, j + 1, high, out + 4 * j + 4);
      }
      return;
    }
    case AS_Q6_K: {
      device const uchar* b = row + u / 8 * 210;
      const float d = block_half(b + 208);
      UNROLL
      for (int part = 0; part < 2; part++) {
        const uint lows = four_bytes(b + part * 64 + 4 * p), more = four_bytes(b + part * 64 + 32 + 4 * p), highs = four_bytes(b + 128 + part * 32 + 4 * p);
        UNROLL
        for (int r = 0; r < 4; r++) {
          const float scale = d * float(char(b[192 + part * 8 + 2 * r + p / 4]));
          UNROLL
          for (int e = 0; e < 4; e++) {
            const int low = int((r % 2 == 0 ? lows : more) >> (8 * e + r / 2 * 4) & 15), high = int(highs >> (8 * e + 2 * r) & 3);
            out[part * 16 + 4 * r + e] = scale * float((low | high << 4) - 32);
          }
        }
      }
      return;
    }
    case AS_Q2_K: {
      device const uchar* b = row + u / 8 * 84;
      const float d = block_half(b + 80), dmin = block_half(b + 82);
      UNROLL
      for (int part = 0; part < 2; part++) {
        const uint bytes = four_bytes(b + 16 + part * 32 + 4 * p);
        UNROLL
        for (int r = 0; r < 4; r++) {
          const int s = b[part * 8 + 2 * r + p / 4];
          const float scale = d * float(s & 15), offset = dmin * float(s >> 4);
          UNROLL
          for (int e = 0; e < 4; e++) {
            const float x = scale * float(int(bytes >> (8 * e + 2 * r) & 3));
            out[part * 16 + 4 * r + e] = x - offset;
          }
        }
      }
      return;
    }
    case AS_Q3_K: {
      device const uchar* b = row + u / 8 * 110;
      const float d = block_half(b + 108);
      const uint thirds = four_bytes(b + 4 * p);
      UNROLL
      for (int part = 0; part < 2; part++) {
        const uint bytes = four_bytes(b + 32 + part * 32 + 4 * p);
        UNROLL
        for (int r = 0; r < 4; r++) {
          const int j = part * 8 + 2 * r + p / 4;
          const int s = (b[96 + j % 8] >> (j / 8 * 4) & 15) | (b[104 + j % 4] >> (j / 4 * 2) & 3) << 4;
          const float scale = d * float(s - 32);
          UNROLL
          for (int e = 0; e < 4; e++) {
            const int low = int(bytes >> (8 * e + 2 * r) & 3), high = int(thirds >> (8 * e + part * 4 + r) & 1);
            out[part * 16 + 4 * r + e] = scale * float((low | high << 2) - 4);
          }
        }
      }
      return;
    }
    case AS_IQ2_XXS: {
      device const uchar* b = row + u / 8 * 66;
      device const uchar* g = b + 2 + p * 8;
      const uint signs = four_bytes(g + 4);
      float scale = block_half(b) * (0.5f + float(signs >> 28));
      scale = scale * 0.25f;
      UNROLL
      for (int e = 0; e < 4; e++) {
        const ulong values = iq2_grid[g[e]];
        UNROLL
        for (int i = 0; i < 8; i++) {
          out[8 * e + i] = with_sign(scale * float(int(values >> (i * 8) & 255)), signs, 8 * e + i);
        }
      }
      return;
    }
    case AS_IQ3_XXS: {
      device const uchar* b = row + u / 8 * 98;
      const uint signs = four_bytes(b + 66 + p * 4);
      float scale = block_half(b) * (0.5f + float(signs >> 28));
      scale = scale * 0.5f;
      UNROLL
      for (int e = 0; e < 8; e++) {
        const uint values = iq3_grid[b[2 + p * 8 + e]];
        UNROLL
        for (int i = 0; i < 4; i++) {
          out[4 * e + i] = with_sign(scale * float(int(values >> (i * 8) & 255)), signs, 4 * e + i);
        }
      }
      return;
    }
    default: { // AS_IQ4_XS
      device const uchar* b = row + u / 8 * 136;
      const float d = block_half(b);
      UNROLL
      for (int j = 0; j < 8; j++) {
        const int s = (b[4 + j / 2] >> (j % 2 * 4) & 15) | (b[2 + j / 4] >> (j % 4 * 2) & 3) << 4;
        const float scale = d * float(s - 32);
        UNROLL
        for (int e = 0; e < 2; e++) {
          const int byte = b[8 + 16 * j + 2 * p + e];
          out[4 * j + e] = scale * float(iq4_values[byte & 15]);
          out[4 * j + 2 + e] = scale * float(iq4_values[byte >> 4]);
        }
      }
    }
  }
}
