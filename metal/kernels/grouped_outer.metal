// For every expert, or for several together, the sum of its rows' outer products, in the rows'
// order.
#include "through_rows.metal"
#include "tile_zone.metal"

struct grouped_outer_params {
  int experts, align;     // number of experts per sum
  int rows, cols;         // of a sum: the elements of A's and of B's rows
  uint a_apart, b_apart;  // row strides
  uint c_row, c_col;      // strides in a sum
  uint sum[2];            // bytes of a sum: see matrix_of
};

// grouped_outer has a threadgroup for every tile of every sum.
template <typename S, typename T, int BM, int BN, int BK, int SM>
kernel void grouped_outer(device const uchar* a [[buffer(0)]], device const uchar* b [[buffer(1)]], device uchar* c [[buffer(2)]],
                          device const int* counts [[buffer(3)]], device const int* a_at [[buffer(4)]], device const int* b_at [[buffer(5)]],
                          constant grouped_outer_params& p [[buffer(6)]],
                          uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                          uint simd_index [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 fours[tile_fours(sizeof(S), sizeof(T), BM, BN, BK, SM)]; // aligned for storing vectors
  threadgroup S* a_block = (threadgroup S*)fours;
  threadgroup T* b_block = (threadgroup T*)(a_block + block_size(BM, BK));
  const expert_rows left = {a, a_at, p.a_apart}, right = {b, b_at, p.b_apart};
  const int row = int(group.y) * BM, col = int(group.x) * BN;
  const int first = int(group.z) * p.experts;
  uint begin = uint(zone_begin(counts, first, p.align, lane));
  tile<S, T, BM, BN, BK, SM> t;
  t.begin(p.rows - row, p.cols - col, index, simd_index);
  for (int e = first; e < first + p.experts; e++) {
    const int count = counts[e];
    for (int k = 0; k < count; k += BK) {
      stage_rows<S, BM, BK>(a_block, left, a_as, a_across, a_fours, a_through, begin + uint(k), uint(row), t.rows, count - k, index);
      stage_rows<T, BN, BK>(b_block, right, b_as, b_across, b_fours, b_through, begin + uint(k), uint(col), t.cols, count - k, index);
      t.add_blocks(a_block, b_block, count - k);
    }
    begin += uint(zone_length(count, p.align));
  }
  device uchar* own = c + matrix_offset(p.sum, int(group.z));
  t.end(own, uint(row) * p.c_row + uint(col) * p.c_col, p.c_row, p.c_col, p.rows - row, lane);
}

TILE_FUNCTIONS_F32(grouped_outer)
TILE_FUNCTIONS_16(grouped_outer)
TILE_FUNCTIONS_MIXED(grouped_outer)
