// Every row times the matrix of its expert, in blocks, and times the row's weight. Of rows with
// weight 0 nothing is read, and they are zeros.
#include "tile.metal"
#include "tile_zone.metal"

struct grouped_blocks_params {
  int experts, align, cols, deep;
  uint w_line, w_deep;  // strides in a matrix, in elements
  uint matrix[2];       // bytes of a matrix: see matrix_of
  int weighted;         // whether rows have weights
};

// grouped_blocks has a threadgroup for every tile that zones may have. Products are not
// weighted yet, but where a tile has nothing but rows with weight 0 none are made.
template <int BM, int BN, int BK, int SM>
kernel void grouped_blocks(device const uchar* x [[buffer(0)]], device const uchar* w [[buffer(1)]], device uchar* y [[buffer(2)]],
                           device const int* counts [[buffer(3)]], device const float* weights [[buffer(4)]],
                           constant grouped_blocks_params& p [[buffer(5)]], uint3 group [[threadgroup_position_in_grid]],
                           uint index [[thread_index_in_threadgroup]], uint simdgroup [[simdgroup_index_in_threadgroup]],
                           uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 fours[tile_fours(sizeof(float), BM, BN, BK, SM)]; // vectors are stored to it, so it begins where one may
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
  tile<float, BM, BN, BK, SM> t;
  t.begin(used, p.cols - col, index, simdgroup);
  if (used > 0) {
    t.add(memory, x, uint(z.row) * uint(p.deep), uint(p.deep), 1, matrix_of(w, p.matrix, z.expert), uint(col) * p.w_line, p.w_line, p.w_deep, p.deep);
  }
  t.end(memory, y, uint(z.row) * uint(p.cols) + uint(col), uint(p.cols), 1, z.rows, simdgroup, lane);
}

#define GROUPED_BLOCKS(name, ...) \
  template [[host_name(name)]] kernel decltype(grouped_blocks<__VA_ARGS__>) grouped_blocks<__VA_ARGS__>;

GROUPED_BLOCKS("grouped_blocks_many", TILE_MANY)
GROUPED_BLOCKS("grouped_blocks_few", TILE_FEW)

// weigh_rows multiplies rows with their weights; those with weight 0 become zeros.
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

#define MATVEC_COLS 4 // columns of a simdgroup

// grouped_blocks_matvec is for few rows: a simdgroup makes MATVEC_COLS elements of one row.
// A lane has 4 elements of the sum in every 128, and the lanes' sums are added.
kernel void grouped_blocks_matvec(device const uchar* x [[buffer(0)]], device const uchar* w [[buffer(1)]],
                                  device uchar* y [[buffer(2)]], device const int* counts [[buffer(3)]],
                                  device const float* weights [[buffer(4)]], constant grouped_blocks_params& p [[buffer(5)]],
                                  uint2 group [[threadgroup_position_in_grid]],
                                  uint simdgroup [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  const zone_tile z = tile_of_zones(counts, p.experts, p.align, 1, int(group.y), lane);
  if (z.expert < 0) {
    return;
  }
  device const uchar* own = matrix_of(w, p.matrix, z.expert);
  const float weight = p.weighted == 0 || z.used <= 0 ? 1.0f : weights[z.row];
  for (int c = 0; c < MATVEC_COLS; c++) {
    const int col = int(group.x * (TILE_THREADS / 32) + simdgroup) * MATVEC_COLS + c;
    if (col >= p.cols) {
      return; // no barriers follow
    }
    float sum = 0.0f;
    if (z.used > 0 && weight != 0.0f) {
      const uint row = uint(z.row) * uint(p.deep);
      const uint line = uint(col) * p.w_line;
      for (int k = int(lane) * 4; k < p.deep; k += 128) {
        const float4 left = numbers(x, a_as, row + uint(k)), right = numbers(own, b_as, line + uint(k));
        sum += left.x * right.x;
        sum += left.y * right.y;
        sum += left.z * right.z;
        sum += left.w * right.w;
      }
      sum = simd_sum(sum) * weight;
    }
    if (lane == 0) {
      set_number(y, c_as, uint(z.row) * uint(p.cols) + uint(col), sum);
    }
  }
}
