// Every row times the matrix of its expert, for few rows: see matvec.metal. A row's weight, if there
// are any, multiplies its result; a row with weight 0 is not read, and its result is zeros.
#include "matvec.metal"
#include "through_rows.metal"
#include "tile_zone.metal"

struct grouped_matvec_params {
  int experts, align, cols, deep;
  uint apart;       // row stride in elements
  uint line, step;  // strides in a matrix, in elements
  uint matrix[2];   // bytes of a matrix: see matrix_of
  int weighted;     // whether rows have weights
};

// grouped_row finds row number t of all zones, and its matrix. For an unused row, or one with weight
// 0, deep is 0.
static inline zone_tile grouped_row(device const uchar* x, device const int* at, device const uchar* w, device const int* counts, device const float* weights,
                                    constant grouped_matvec_params& p, int t, uint lane, thread matvec_operands& o, thread float& weight) {
  const zone_tile z = tile_of_zones(counts, p.experts, p.align, 1, t, lane);
  if (z.expert >= 0) {
    weight = p.weighted == 0 || z.used <= 0 ? 1.0f : weights[z.row];
    o.x = x;
    o.w = matrix_of(w, p.matrix, z.expert);
    const expert_rows rows = {x, at, p.apart};
    o.start = z.used > 0 ? row_start(rows, a_through, uint(z.row)) : 0;
    o.apart = p.apart;
    o.line = p.line;
    o.step = p.step;
    o.rows = 1;
    o.cols = p.cols;
    o.deep = z.used > 0 && weight != 0.0f ? p.deep : 0;
  }
  return z;
}

kernel void grouped_matvec_along(device const uchar* x [[buffer(0)]], device const uchar* w [[buffer(1)]], device uchar* y [[buffer(2)]],
                                 device const int* counts [[buffer(3)]], device const float* weights [[buffer(4)]],
                                 device const int* at [[buffer(5)]], constant grouped_matvec_params& p [[buffer(6)]], uint2 group [[threadgroup_position_in_grid]],
                                 uint simdgroup [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  matvec_operands o;
  float weight;
  const zone_tile z = grouped_row(x, at, w, counts, weights, p, int(group.y), lane, o, weight);
  if (z.expert >= 0) {
    const int first = int(group.x * MATVEC_SIMDS + simdgroup) * matvec_columns();
    matvec_along<1>(o, first, y, uint(z.row) * uint(p.cols), 0, 1, weight, lane);
  }
}

kernel void grouped_matvec_across(device const uchar* x [[buffer(0)]], device const uchar* w [[buffer(1)]], device uchar* y [[buffer(2)]],
                                  device const int* counts [[buffer(3)]], device const float* weights [[buffer(4)]],
                                  device const int* at [[buffer(5)]], constant grouped_matvec_params& p [[buffer(6)]], uint2 group [[threadgroup_position_in_grid]],
                                  uint index [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 room[MATVEC_WAYS / 2 * MATVEC_WIDE / 4];
  matvec_operands o;
  float weight;
  const zone_tile z = grouped_row(x, at, w, counts, weights, p, int(group.y), lane, o, weight);
  if (z.expert >= 0) {
    matvec_across<1>(o, int(group.x) * MATVEC_WIDE, y, uint(z.row) * uint(p.cols), 0, 1, weight, (threadgroup float*)room, index);
  }
}
