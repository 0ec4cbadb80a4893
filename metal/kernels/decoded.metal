// Rows times matrices whose elements are decoded when they are brought to threadgroup memory:
// 8-bit floats in blocks of 128×128 that have a scale, and MLX's affine quantisation.
#include "f8.metal"
#include "tile.metal"
#include "tile_zone.metal"

constant int scales_as [[function_constant(7)]];  // element type of scales and biases
constant int layout [[function_constant(8)]];     // 0 is f8_e4m3 and 1 f8_e5m2, otherwise the bits of a number

struct decoded_params {
  int experts, align;  // without experts all rows are in use
  int rows, cols, deep;
  int width;           // columns of a matrix
  int group;           // elements of a line that have one scale
  uint matrix[2];      // bytes of a matrix: see matrix_of
  uint scales[2];      // bytes of the scales of a matrix
};

// scaled_matrix is 8-bit floats. An element is its value times the scale of its block, rounded
// once.
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
};

// affine_matrix is integers of `layout` bits in words of 32, the first in the lowest bits. An
// element is its integer times the scale of its group, rounded, plus the bias of this, rounded.
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
};

// decoded has a threadgroup for every tile that zones may have, or for every tile of rows that
// are all in use. A matrix is taken transposed, unless b_across is set.
template <typename M, typename S, int BM, int BN, int BK, int SM>
kernel void decoded(device const uchar* x [[buffer(0)]], device const uchar* w [[buffer(1)]], device uchar* y [[buffer(2)]],
                    device const int* counts [[buffer(3)]], device const uchar* scales [[buffer(4)]],
                    device const uchar* biases [[buffer(5)]], constant decoded_params& p [[buffer(6)]],
                    uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                    uint simdgroup [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 fours[tile_fours(sizeof(S), sizeof(float), BM, BN, BK, SM)]; // vectors are stored to it, so it begins where one may
  threadgroup float* memory = (threadgroup float*)fours;
  zone_tile z;
  if (p.experts > 0) {
    z = tile_of_zones(counts, p.experts, p.align, BM, int(group.y), lane);
  } else {
    z.expert = 0;
    z.row = int(group.y) * BM;
    z.used = z.rows = p.rows - z.row;
  }
  if (z.expert < 0) {
    return;
  }
  const int col = int(group.x) * BN;
  tile<S, float, BM, BN, BK, SM> t;
  t.begin(z.used, p.cols - col, index, simdgroup);
  if (z.used > 0) {
    M m;
    m.begin(w, scales, biases, p, z.expert);
    t.add_matrix(memory, x, uint(z.row) * uint(p.deep), uint(p.deep), m, col, p.deep);
  }
  t.end(y, uint(z.row) * uint(p.cols) + uint(col), uint(p.cols), 1, z.rows, lane);
}

#define DECODED(name, ...) \
  template [[host_name(name)]] kernel decltype(decoded<__VA_ARGS__>) decoded<__VA_ARGS__>;
#define DECODED_FUNCTIONS(name, M)                             \
  DECODED(name "_many_f32", M, float, TILE_MANY)               \
  DECODED(name "_many_f16_f32", M, half, TILE_WIDE)            \
  DECODED(name "_many_bf16_f32", M, bfloat, TILE_WIDE)         \
  DECODED(name "_few_f32", M, float, TILE_FEW)                 \
  DECODED(name "_few_f16_f32", M, half, TILE_FEW)              \
  DECODED(name "_few_bf16_f32", M, bfloat, TILE_FEW)

DECODED_FUNCTIONS("scaled_matmul", scaled_matrix)
DECODED_FUNCTIONS("affine_matmul", affine_matrix)
