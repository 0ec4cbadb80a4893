// ep_pack, ep_pack_rows, ep_place, ep_permute and ep_spread: rows sent to experts and back.
//
// Threads are [columns of a row, rows]. Rows are contiguous, and so are weights.
#include "row_copy.metal"

// ep_pack copies the row of token tokens[j], and the weights of its choices, to place j on the wire.
// After the last sent row, tokens are -1.
template <typename U>
kernel void ep_pack(device const U* values [[buffer(0)]],
                    device const U* weights [[buffer(1)]],
                    device const int* tokens [[buffer(2)]],
                    device U* wire [[buffer(3)]],
                    constant rows_params& p [[buffer(4)]],
                    uint2 at [[thread_position_in_grid]]) {
  const int j = int(at.y);
  const int column = int(at.x);
  if (j >= p.items || column >= row_columns<U>(p)) {
    return;
  }
  const int token = tokens[j];
  if (token < 0 || token >= p.rows) {
    return;
  }
  device U* to = wire + j * p.packed;
  copy_row<U>(to, to + p.values, values + token * p.values, weights + token * p.weight, column, p);
}

// ep_pack_rows copies row order[j] of the experts' zones to place j on the wire.
template <typename U>
kernel void ep_pack_rows(device const U* values [[buffer(0)]],
                         device const U* weights [[buffer(1)]],
                         device const int* order [[buffer(2)]],
                         device const int* counts [[buffer(3)]],
                         device U* wire [[buffer(4)]],
                         constant rows_params& p [[buffer(5)]],
                         uint2 at [[thread_position_in_grid]],
                         uint lane [[thread_index_in_simdgroup]]) {
  const int j = int(at.y);
  const int column = int(at.x);
  const int used = counted(counts, p.experts, lane);
  if (j >= min(used, p.items) || column >= row_columns<U>(p)) {
    return;
  }
  const int row = order[j];
  if (row < 0 || row >= p.rows) {
    return;
  }
  device U* to = wire + j * p.packed;
  copy_row<U>(to, to + p.values, values + row * p.values, weights + row * p.weight, column, p);
}

// ep_place copies to row i of the zones the received row at place from[i] on the wire, and the weight
// of its choice[i]. Rows of the zones belonging to no pair have place -1.
template <typename U>
kernel void ep_place(device const U* wire [[buffer(0)]],
                     device const int* from [[buffer(1)]],
                     device const int* choice [[buffer(2)]],
                     device U* values [[buffer(3)]],
                     device U* weights [[buffer(4)]],
                     constant rows_params& p [[buffer(5)]],
                     uint2 at [[thread_position_in_grid]]) {
  const int row = int(at.y);
  const int column = int(at.x);
  if (row >= p.items || column >= row_columns<U>(p)) {
    return;
  }
  const int j = from[row];
  if (j < 0 || j >= p.rows) {
    return;
  }
  const int k = p.weight > 0 ? choice[row] : 0;
  if (k < 0 || k >= p.choices) {
    return;
  }
  device const U* arrived = wire + j * p.packed;
  copy_row<U>(values + row * p.values, weights + row * p.weight, arrived, arrived + p.values + k * p.weight, column, p);
}

// ep_permute copies the rows of pairs to the experts' zones, on a rank owning all experts.
template <typename U>
kernel void ep_permute(device const U* values [[buffer(0)]],
                       device const U* weights [[buffer(1)]],
                       device const int* place [[buffer(2)]],
                       device const int* order [[buffer(3)]],
                       device U* to_values [[buffer(4)]],
                       device U* to_weights [[buffer(5)]],
                       constant rows_params& p [[buffer(6)]],
                       uint2 at [[thread_position_in_grid]]) {
  const int pair = int(at.y);
  const int column = int(at.x);
  if (pair >= p.items || column >= row_columns<U>(p)) {
    return;
  }
  const int j = place[pair];
  if (j < 0 || j >= p.rows) {
    return;
  }
  const int row = order[j];
  if (row < 0 || row >= p.rows) {
    return;
  }
  copy_row<U>(to_values + row * p.values, to_weights + row * p.weight, values + pair / p.choices * p.values, weights + pair * p.weight, column, p);
}

// ep_spread copies the rank's rows to the places of their pairs on the wire, and zeroes the
// places of other pairs.
template <typename U>
kernel void ep_spread(device const U* values [[buffer(0)]],
                      device const U* weights [[buffer(1)]],
                      device const int* place [[buffer(2)]],
                      device const int* order [[buffer(3)]],
                      device U* wire [[buffer(4)]],
                      constant rows_params& p [[buffer(5)]],
                      uint2 at [[thread_position_in_grid]]) {
  const int pair = int(at.y);
  const int column = int(at.x);
  if (pair >= p.items || column >= row_columns<U>(p)) {
    return;
  }
  const int j = place[pair];
  const int row = j >= 0 && j < p.rows ? order[j] : -1;
  device U* to = wire + pair * p.packed;
  if (row >= 0 && row < p.rows) {
    copy_row<U>(to, to + p.values, values + row * p.values, weights + row * p.weight, column, p);
  } else {
    clear_row<U>(to, to + p.values, column, p);
  }
}

// ep_place_weights copies to row i of the zones the weight of its choice[i], from the received row at
// place from[i] on the wire. A thread copies a weight.
template <typename U>
kernel void ep_place_weights(device const U* wire [[buffer(0)]],
                             device const int* from [[buffer(1)]],
                             device const int* choice [[buffer(2)]],
                             device U* weights [[buffer(3)]],
                             constant rows_params& p [[buffer(4)]],
                             uint2 at [[thread_position_in_grid]]) {
  const int row = int(at.y);
  if (row >= p.items || at.x > 0) {
    return;
  }
  const int j = from[row];
  const int k = choice[row];
  if (j >= 0 && j < p.rows && k >= 0 && k < p.choices) {
    copy_piece<U>(weights + row * p.weight, wire + j * p.packed + p.values + k * p.weight, 0, p.weight);
  }
}

// ep_permute_weights copies the weights of pairs to the experts' zones, on a rank owning all experts.
template <typename U>
kernel void ep_permute_weights(device const U* weights [[buffer(0)]],
                               device const int* place [[buffer(1)]],
                               device const int* order [[buffer(2)]],
                               device U* to [[buffer(3)]],
                               constant rows_params& p [[buffer(4)]],
                               uint2 at [[thread_position_in_grid]]) {
  const int pair = int(at.y);
  if (pair >= p.items || at.x > 0) {
    return;
  }
  const int j = place[pair];
  const int row = j >= 0 && j < p.rows ? order[j] : -1;
  if (row >= 0 && row < p.rows) {
    copy_piece<U>(to + row * p.weight, weights + pair * p.weight, 0, p.weight);
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

#define ep_rows(U, suffix)                                                                             \
  template [[host_name("ep_pack_" suffix)]] [[kernel]] decltype(ep_pack<U>) ep_pack<U>; \
  template [[host_name("ep_pack_rows_" suffix)]] [[kernel]] decltype(ep_pack_rows<U>) ep_pack_rows<U>; \
  template [[host_name("ep_place_" suffix)]] [[kernel]] decltype(ep_place<U>) ep_place<U>; \
  template [[host_name("ep_permute_" suffix)]] [[kernel]] decltype(ep_permute<U>) ep_permute<U>; \
  template [[host_name("ep_spread_" suffix)]] [[kernel]] decltype(ep_spread<U>) ep_spread<U>; \
  template [[host_name("ep_place_weights_" suffix)]] [[kernel]] decltype(ep_place_weights<U>) ep_place_weights<U>; \
  template [[host_name("ep_permute_weights_" suffix)]] [[kernel]] decltype(ep_permute_weights<U>) ep_permute_weights<U>; \
  template [[host_name("ep_gaps_" suffix)]] [[kernel]] decltype(ep_gaps<U>) ep_gaps<U>;

ep_rows(uchar, "1")
ep_rows(ushort, "2")
ep_rows(uint, "4")
ep_rows(uint4, "16")
