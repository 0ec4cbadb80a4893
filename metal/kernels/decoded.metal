// Rows times matrices decoded while loading them to threadgroup memory: 8-bit floats in blocks of
// 128×128 with a scale, and MLX's affine quantization.
#include "decoded_matrix.metal"
#include "tile.metal"

// decoded uses a threadgroup for every tile that zones may have, or for every tile of rows if all
// are in use. A matrix is taken transposed, unless b_across is set.
template <typename M, typename S, int BM, int BN, int BK, int SM>
kernel void decoded(device const uchar* x [[buffer(0)]], device const uchar* w [[buffer(1)]], device uchar* y [[buffer(2)]],
                    device const int* counts [[buffer(3)]], device const uchar* scales [[buffer(4)]],
                    device const uchar* biases [[buffer(5)]], constant decoded_params& p [[buffer(6)]],
                    uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                    uint simdgroup [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 fours[tile_fours(sizeof(S), sizeof(float), BM, BN, BK, SM)]; // aligned for storing vectors
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
  DECODED(name "_many_f32_f32", M, float, TILE_WIDE)           \
  DECODED(name "_many_f16_f32", M, half, TILE_WIDE)            \
  DECODED(name "_many_bf16_f32", M, bfloat, TILE_WIDE)         \
  DECODED(name "_few_f32", M, float, TILE_FEW)                 \
  DECODED(name "_few_f16_f32", M, half, TILE_FEW)              \
  DECODED(name "_few_bf16_f32", M, bfloat, TILE_FEW)

DECODED_FUNCTIONS("scaled_matmul", scaled_matrix)
DECODED_FUNCTIONS("affine_matmul", affine_matrix)
