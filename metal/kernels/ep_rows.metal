// ep_pack, ep_pack_rows, ep_place and ep_spread: rows sent to experts and back.
#include "row_copy.metal"

// Strides and the first weight's location are in units.
struct move_params {
  int items;    // rows of the destination
  int values;   // units of a row's values
  int weight;   // units of its weight, 0 without
  int rows;     // rows of the source
  int choices;  // weights of a row of the source
  int experts;  // number of experts with counted rows, 0 if all items are moved
  int clear;    // whether rows without a source are zeroed
  int from_step, from_weight_step, from_weight_first;
  int to_step, to_weight_step, to_weight_first;
};

// ep_move copies row from[index[i]], and of its weights number choice[i], to row i. Rows without a source have index -1.
// Without several weights per row, choice is not read. Threads are [columns of a row, rows].
template <typename U>
kernel void ep_move(device const U* from [[buffer(0)]],
                    device const U* from_weights [[buffer(1)]],
                    device const int* index [[buffer(2)]],
                    device const int* choice [[buffer(3)]],
                    device const int* counts [[buffer(4)]],
                    device U* to [[buffer(5)]],
                    device U* to_weights [[buffer(6)]],
                    constant move_params& p [[buffer(7)]],
                    uint2 at [[thread_position_in_grid]],
                    uint lane [[thread_index_in_simdgroup]]) {
  const int i = int(at.y);
  const int column = int(at.x);
  const int items = p.experts > 0 ? min(counted(counts, p.experts, lane), p.items) : p.items;
  if (i >= items || column >= row_columns<U>(p)) {
    return;
  }
  device U* values = to + i * p.to_step;
  device U* weight = to_weights + p.to_weight_first + i * p.to_weight_step;
  const int j = index[i];
  if (j < 0 || j >= p.rows) {
    if (p.clear) {
      clear_row<U>(values, weight, column, p);
    }
    return;
  }
  const int k = p.choices > 1 ? choice[i] : 0;
  if (k >= 0 && k < p.choices) {
    copy_row<U>(values, weight, from + j * p.from_step, from_weights + p.from_weight_first + j * p.from_weight_step + k * p.weight, column, p);
  }
}

// ep_gaps zeroes the padding rows of zones. Threads are [columns, 1, experts], and all threads of a
// threadgroup have the same expert.
template <typename U>
kernel void ep_gaps(device const int* counts [[buffer(0)]],
                    device U* values [[buffer(1)]],
                    device U* weights [[buffer(2)]],
                    constant rows_params& p [[buffer(3)]],
                    uint3 at [[thread_position_in_grid]],
                    uint lane [[thread_index_in_simdgroup]]) {
  const int expert = int(at.z);
  const int column = int(at.x);
  int begin = 0;
  for (int e = int(lane); e < expert; e += 32) {
    begin += zone_length(counts[e], p.align);
  }
  begin = simd_sum(begin);
  const int end = min(begin + zone_length(counts[expert], p.align), p.rows);
  for (int row = begin + counts[expert]; row < end; row++) {
    const int first = column * units16<U>();
    for (int i = first; i < min(first + units16<U>(), p.values); i++) {
      values[row * p.values + i] = U(0);
    }
    for (int i = first; i < min(first + units16<U>(), p.weight); i++) {
      weights[row * p.weight + i] = U(0);
    }
  }
}

#define ep_rows(U, suffix)                                                              \
  template [[host_name("ep_move_" suffix)]] [[kernel]] decltype(ep_move<U>) ep_move<U>; \
  template [[host_name("ep_gaps_" suffix)]] [[kernel]] decltype(ep_gaps<U>) ep_gaps<U>;

ep_rows(uchar, "1")
ep_rows(ushort, "2")
ep_rows(uint, "4")
ep_rows(uint4, "16")
