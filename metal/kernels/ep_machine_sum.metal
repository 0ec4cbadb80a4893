// ep_sum_machines: every token's sum over rows passed back by members of its machine and by other machines,
// in the order of its choices, and every pair's weight.
#include "row_sum.metal"

// row_at returns row number j of two arrays of packed rows, numbered consecutively: the first has p.rows.
template <typename U>
static inline device const U* row_at(device const U* passed, device const U* home, constant sum_params& p, int j) {
  return j < p.rows ? passed + j * p.row_units : home + (j - p.rows) * p.row_units;
}

// ep_sum_machines is ep_sum for rows shared by pairs, in two arrays, rounded once to O.
template <typename T, typename U, typename O>
kernel void ep_sum_machines(device const U* passed [[buffer(0)]],
                            device const U* home [[buffer(1)]],
                            device const int* place [[buffer(2)]],
                            device O* sums [[buffer(3)]],
                            device U* to_weights [[buffer(4)]],
                            constant sum_params& p [[buffer(5)]],
                            uint2 at [[thread_position_in_grid]]) {
  const int token = int(at.y);
  const int i = int(at.x);
  if (token >= p.tokens) {
    return;
  }
  if (i < p.hidden) {
    float sum = 0;
    for (int k = 0; k < p.choices; k++) {
      const int pair = token * p.choices + k;
      if (place[pair] >= 0 && !shared(place, p, pair)) {
        sum += element(row_at(passed, home, p, place[pair]), i, T(), p.hidden);
      }
    }
    sums[token * p.hidden + i] = O(sum);
  }
  const int units = p.choices * p.weight_units;
  if (i < units) {
    const int j = place[token * p.choices + i / p.weight_units];
    to_weights[token * units + i] = j >= 0 ? row_at(passed, home, p, j)[p.weight_first + i] : U(0);
  }
}

#define ep_sum_machines_of(T, U, O, name) \
  template [[host_name(name)]] [[kernel]] decltype(ep_sum_machines<T, U, O>) ep_sum_machines<T, U, O>;

ep_sum_machines_of(float, uint, float, "ep_sum_machines_f32")
ep_sum_machines_of(float, ushort, float, "ep_sum_machines_f32_2")
ep_sum_machines_of(half, ushort, half, "ep_sum_machines_f16")
ep_sum_machines_of(bfloat, ushort, bfloat, "ep_sum_machines_bf16")
ep_sum_machines_of(float, ushort, half, "ep_sum_machines_f32_f16")
ep_sum_machines_of(float, ushort, bfloat, "ep_sum_machines_f32_bf16")
ep_sum_machines_of(half, ushort, float, "ep_sum_machines_f16_f32")
ep_sum_machines_of(half, ushort, bfloat, "ep_sum_machines_f16_bf16")
ep_sum_machines_of(bfloat, ushort, float, "ep_sum_machines_bf16_f32")
ep_sum_machines_of(bfloat, ushort, half, "ep_sum_machines_bf16_f16")
ep_sum_machines_of(e4m3, ushort, float, "ep_sum_machines_f8_e4m3_f32")
ep_sum_machines_of(e4m3, ushort, half, "ep_sum_machines_f8_e4m3_f16")
ep_sum_machines_of(e4m3, ushort, bfloat, "ep_sum_machines_f8_e4m3_bf16")
ep_sum_machines_of(e5m2, ushort, float, "ep_sum_machines_f8_e5m2_f32")
ep_sum_machines_of(e5m2, ushort, half, "ep_sum_machines_f8_e5m2_f16")
ep_sum_machines_of(e5m2, ushort, bfloat, "ep_sum_machines_f8_e5m2_bf16")
