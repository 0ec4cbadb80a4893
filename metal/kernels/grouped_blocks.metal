// Every row times the matrix of its expert, in blocks, and times the row's weight. Rows with weight
// 0 are not read, and their results are zeros.
#include "tile.metal"
#include "tile_zone.metal"

struct grouped_blocks_params {
  int experts, align, cols, deep;
  uint w_line, w_deep;  // strides in a matrix, in elements
  uint matrix[2];       // bytes of a matrix: see matrix_of
  int weighted;         // whether rows have weights
};

// grouped_blocks uses a threadgroup for every tile that zones may have. Products are not weighted
// yet, but a tile with only rows of weight 0 makes none.
template <typename S, typename T, int BM, int BN, int BK, int SM>
kernel void grouped_blocks(device const uchar* x [[buffer(0)]], device const uchar* w [[buffer(1)]], device uchar* y [[buffer(2)]],
                           device const int* counts [[buffer(3)]], device const float* weights [[buffer(4)]],
                           constant grouped_blocks_params& p [[buffer(5)]], uint3 group [[threadgroup_position_in_grid]],
                           uint index [[thread_index_in_threadgroup]], uint simdgroup [[simdgroup_index_in_threadgroup]],
                           uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 fours[tile_fours(sizeof(S), sizeof(T), BM, BN, BK, SM)]; // aligned for storing vectors
  threadgroup float* memory = (threadgroup float*)fours;
  const zone_tile z = tile_of_zones(counts, p.experts, p.align, BM, int(group.y), lane);
  if (z.expert < 0) {
    return;
  }
  int used = z.used;
  if (p.weighted != 0) {
    bool any = false;
    for (int i = 0; i < used && i < BM; i++) {
      any = any || weights[z.row + i] != 0.0f;
    }
    if (!any) {
      used = 0; // the tile's rows are written, as zeros
    }
  }
  const int col = int(group.x) * BN;
  tile<S, T, BM, BN, BK, SM> t;
  t.begin(used, p.cols - col, index, simdgroup);
  if (used > 0) {
    t.add(memory, x, uint(z.row) * uint(p.deep), uint(p.deep), 1, matrix_of(w, p.matrix, z.expert), uint(col) * p.w_line, p.w_line, p.w_deep, p.deep);
  }
  t.end(y, uint(z.row) * uint(p.cols) + uint(col), uint(p.cols), 1, z.rows, lane);
}

TILE_FUNCTIONS_DECODED(grouped_blocks)

// weigh_rows multiplies rows by their weights; rows with weight 0 become zeros.
kernel void weigh_rows(device float* y [[buffer(0)]], device const float* weights [[buffer(1)]],
                       device const int* counts [[buffer(2)]], constant grouped_blocks_params& p [[buffer(3)]],
                       uint2 at [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  const int row = int(at.y);
  if (row >= zones_end(counts, p.experts, p.align) || !row_in_use(counts, p.experts, p.align, row)) {
    return;
  }
  if (int(at.x) < p.cols) {
    const float weight = weights[row];
    const uint i = uint(row) * uint(p.cols) + at.x;
    y[i] = weight != 0.0f ? y[i] * weight : 0.0f;
  }
}
