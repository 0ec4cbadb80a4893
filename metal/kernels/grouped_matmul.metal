// Every row times the matrix of its expert.
#include "through_rows.metal"
#include "tile_zone.metal"

struct grouped_matmul_params {
  int experts, align, cols, deep;
  uint apart;                     // row stride in elements
  uint w_line, w_deep;            // strides in a matrix, in elements
  uint matrix[2];                 // bytes of a matrix: see matrix_of
};

// grouped_matmul uses a threadgroup for every tile that zones may have, for any distribution of the
// rows; the surplus ones have nothing to do.
template <typename S, typename T, int BM, int BN, int BK, int SM>
kernel void grouped_matmul(device const uchar* x [[buffer(0)]], device const uchar* w [[buffer(1)]], device uchar* y [[buffer(2)]],
                           device const int* counts [[buffer(3)]], device const int* at [[buffer(4)]], constant grouped_matmul_params& p [[buffer(5)]],
                           uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                           uint simd_index [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 fours[tile_fours(sizeof(S), sizeof(T), BM, BN, BK, SM)]; // aligned for storing vectors
  threadgroup S* a_block = (threadgroup S*)fours;
  threadgroup T* b_block = (threadgroup T*)(a_block + block_size(BM, BK));
  const zone_tile z = tile_of_zones(counts, p.experts, p.align, BM, int(group.y), lane);
  if (z.expert < 0) {
    return;
  }
  const int col = int(group.x) * BN;
  tile<S, T, BM, BN, BK, SM> t;
  t.begin(z.used, p.cols - col, index, simd_index);
  if (z.used > 0) {
    const expert_rows rows = {x, at, p.apart};
    device const uchar* own = matrix_of(w, p.matrix, z.expert);
    for (int k = 0; k < p.deep; k += BK) {
      stage_rows<S, BM, BK>(a_block, rows, a_as, a_across, a_fours, a_through, uint(z.row), uint(k), z.used, p.deep - k, index);
      stage<T, BN, BK>(b_block, own, b_as, b_across, b_fours, uint(col) * p.w_line + uint(k) * p.w_deep, p.w_line, p.w_deep, p.cols - col, p.deep - k, index);
      t.add_blocks(a_block, b_block, p.deep - k);
    }
  }
  t.end(y, uint(z.row) * uint(p.cols) + uint(col), uint(p.cols), 1, z.rows, lane);
}

TILE_FUNCTIONS_F32(grouped_matmul)
TILE_FUNCTIONS_16(grouped_matmul)
TILE_FUNCTIONS_MIXED(grouped_matmul)
