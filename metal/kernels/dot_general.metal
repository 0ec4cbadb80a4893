// Products of arrays, one of matrices for every batch index.
#include "tile.metal"

#define DOT_BATCH 6  // dimensions of batch indices
#define DOT_DEEP 3   // summed dimensions in addition to the tile's

struct dot_params {
  int rows, cols, deep;
  uint a_line, a_deep, b_line, b_deep, c_row, c_col;  // strides in elements, as all others
  int batch[DOT_BATCH];                               // sizes, the last index varying fastest
  uint a_batch[DOT_BATCH], b_batch[DOT_BATCH], c_batch[DOT_BATCH];
  int outer[DOT_DEEP];
  uint a_outer[DOT_DEEP], b_outer[DOT_DEEP];
};

// dot_general has a threadgroup for every tile and batch index.
template <typename S, typename T, int BM, int BN, int BK, int SM>
kernel void dot_general(device const uchar* a [[buffer(0)]], device const uchar* b [[buffer(1)]], device uchar* c [[buffer(2)]],
                        constant dot_params& p [[buffer(3)]], uint3 group [[threadgroup_position_in_grid]],
                        uint index [[thread_index_in_threadgroup]], uint simd_index [[simdgroup_index_in_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 fours[tile_fours(sizeof(S), sizeof(T), BM, BN, BK, SM)]; // aligned for storing vectors
  threadgroup float* memory = (threadgroup float*)fours;
  const int row = int(group.y) * BM, col = int(group.x) * BN;
  uint a_start = uint(row) * p.a_line, b_start = uint(col) * p.b_line, c_start = uint(row) * p.c_row + uint(col) * p.c_col;
  uint rest = group.z;
  for (int d = DOT_BATCH - 1; d >= 0; d--) {
    const uint n = uint(p.batch[d]), i = rest % n;
    rest /= n;
    a_start += i * p.a_batch[d];
    b_start += i * p.b_batch[d];
    c_start += i * p.c_batch[d];
  }
  tile<S, T, BM, BN, BK, SM> t;
  t.begin(p.rows - row, p.cols - col, index, simd_index);
  const int times = p.outer[0] * p.outer[1] * p.outer[2];
  for (int o = 0; o < times; o++) {
    uint a_from = a_start, b_from = b_start;
    int left = o;
    for (int d = DOT_DEEP - 1; d >= 0; d--) {
      const uint i = uint(left % p.outer[d]);
      left /= p.outer[d];
      a_from += i * p.a_outer[d];
      b_from += i * p.b_outer[d];
    }
    t.add(memory, a, a_from, p.a_line, p.a_deep, b, b_from, p.b_line, p.b_deep, p.deep);
  }
  t.end(c, c_start, p.c_row, p.c_col, p.rows - row, lane);
}

TILE_FUNCTIONS_F32(dot_general)
TILE_FUNCTIONS_16(dot_general)
TILE_FUNCTIONS_MIXED(dot_general)
