// Matrices decoded while they are read: 8-bit floats in blocks of 128×128 with a scale, and MLX's
// affine quantization. at returns one element, for tiles; head, four and unit return several elements
// sharing the decoded scale, for vectors. An element has the same bits from each.
#include "f8.metal"
#include "operands.metal"
#include "tile_zone.metal"

constant int scales_as [[function_constant(7)]];  // element type of scales and biases
constant int layout [[function_constant(8)]];     // 0 is f8_e4m3 and 1 f8_e5m2, otherwise the bits of a number

struct decoded_params {
  int experts, align;  // without experts all rows are in use
  int rows, cols, deep;
  int width;           // columns of a matrix
  int group;           // elements of a line sharing a scale
  uint matrix[2];      // bytes of a matrix: see matrix_of
  uint scales[2];      // bytes of the scales of a matrix
};

// scaled_matrix is 8-bit floats. An element is its value times the scale of its block, rounded once.
struct scaled_matrix {
  device const uchar* w;
  device const uchar* scales;
  int width;

  void begin(device const uchar* all, device const uchar* all_scales, device const uchar*, constant decoded_params& p, int expert) {
    w = matrix_of(all, p.matrix, expert);
    scales = matrix_of(all_scales, p.scales, expert);
    width = p.width;
  }

  float at(int row, int column) const {
    const uchar code = w[uint(row) * uint(width) + uint(column)];
    const float v = layout == 0 ? f8_e4m3_value(code) : f8_e5m2_value(code);
    const uint blocks = uint(width + 127) / 128u;
    return v * number(scales, scales_as, uint(row / 128) * blocks + uint(column / 128));
  }

  float scale;  // of the block that head has read

  // head reads the common part of the elements of a block, or of a group. It is the same for `tall`
  // rows from a multiple of it on.
  static constexpr int tall = 128;

  void head(int row, int column) {
    const uint blocks = uint(width + 127) / 128u;
    scale = number(scales, scales_as, uint(row / 128) * blocks + uint(column / 128));
  }

  // decoded returns the element with this code, using the scale read by head.
  float decoded(uint code) const {
    const float v = layout == 0 ? f8_e4m3_value(uchar(code)) : f8_e5m2_value(uchar(code));
    return v * scale;
  }

  // four returns 4 elements of a row, from a multiple of 4 on, with `left` elements remaining in the
  // row.
  float4 four(int row, int column, int left) const {
    device const uchar* from = w + (uint(row) * uint(width) + uint(column));
    float4 v = float4(0.0f);
    if (b_fours && left >= 4) {
      const uint word = *(device const uint*)from;
      v = float4(decoded(word & 255u), decoded(word >> 8 & 255u), decoded(word >> 16 & 255u), decoded(word >> 24));
    } else {
      if (left > 0) v.x = decoded(from[0]);
      if (left > 1) v.y = decoded(from[1]);
      if (left > 2) v.z = decoded(from[2]);
      if (left > 3) v.w = decoded(from[3]);
    }
    return v;
  }

  // unit writes 32 elements of a row, from a multiple of 32 on, padding with zeros after the `left`
  // remaining ones.
  void unit(int row, int column, int left, thread float* out) const {
    device const uchar* from = w + (uint(row) * uint(width) + uint(column));
    if (b_fours && left >= 32) {
      UNROLL
      for (int part = 0; part < 2; part++) {
        const uint4 words = *(device const uint4*)(from + 16 * part);
        UNROLL
        for (int e = 0; e < 16; e++) {
          out[16 * part + e] = decoded(words[e / 4] >> (e % 4 * 8) & 255u);
        }
      }
      return;
    }
    UNROLL
    for (int e = 0; e < 32; e++) {
      out[e] = e < left ? decoded(from[e]) : 0.0f;
    }
  }
};

// affine_matrix is integers of `layout` bits in words of 32, the first in the lowest bits. An element
// is its integer times the scale of its group, rounded, plus the bias of the group, rounded.
struct affine_matrix {
  device const uint* w;
  device const uchar* scales;
  device const uchar* biases;
  int width, group;

  void begin(device const uchar* all, device const uchar* all_scales, device const uchar* all_biases, constant decoded_params& p, int expert) {
    w = (device const uint*)matrix_of(all, p.matrix, expert);
    scales = matrix_of(all_scales, p.scales, expert);
    biases = matrix_of(all_biases, p.scales, expert);
    width = p.width;
    group = p.group;
  }

  float at(int row, int column) const {
    const uint per = 32u / uint(layout);
    const uint word = w[uint(row) * (uint(width) / per) + uint(column) / per];
    const uint q = word >> (uint(column) % per * uint(layout)) & ((1u << layout) - 1u);
    const uint own = uint(row) * uint(width / group) + uint(column / group);
    const float scaled = float(q) * number(scales, scales_as, own);
    return scaled + number(biases, scales_as, own);
  }

  float scale, bias;  // of the group that head has read

  static constexpr int tall = 1;  // every row has groups of its own

  void head(int row, int column) {
    const uint own = uint(row) * uint(width / group) + uint(column / group);
    scale = number(scales, scales_as, own);
    bias = number(biases, scales_as, own);
  }

  float decoded(uint q) const {
    const float scaled = float(int(q)) * scale;
    return scaled + bias;
  }

  // four reads 4 columns, all within the row: groups are whole, and so are rows.
  float4 four(int row, int column, int) const {
    const uint at = uint(row) * uint(width) + uint(column);
    if (layout == 4) {
      const uint q = ((device const ushort*)w)[at / 4];
      return float4(decoded(q & 15u), decoded(q >> 4 & 15u), decoded(q >> 8 & 15u), decoded(q >> 12));
    }
    const uint q = w[at / 4];
    return float4(decoded(q & 255u), decoded(q >> 8 & 255u), decoded(q >> 16 & 255u), decoded(q >> 24));
  }

  // unit reads 32 elements of one group.
  void unit(int row, int column, int, thread float* out) const {
    const uint per = 32u / uint(layout);
    device const uint4* from = (device const uint4*)(w + (uint(row) * uint(width) + uint(column)) / per);
    if (layout == 4) {
      const uint4 words = from[0];
      UNROLL
      for (int e = 0; e < 32; e++) {
        out[e] = decoded(words[e / 8] >> (e % 8 * 4) & 15u);
      }
      return;
    }
    UNROLL
    for (int part = 0; part < 2; part++) {
      const uint4 words = from[part];
      UNROLL
      for (int e = 0; e < 16; e++) {
        out[16 * part + e] = decoded(words[e / 4] >> (e % 4 * 8) & 255u);
      }
    }
  }
};
