// ep_sum and ep_sum_ranks, also for rows of another type on the wire: every token's sum over the rows of its choices, in their order, and
// every pair's weight.
#include "row_sum.metal"

// ep_sum adds in float and rounds once to O. Threads are [elements of a token, tokens]; the first ones also copy the weights of the
// token's choices.
template <typename T, typename U, typename O>
kernel void ep_sum(device const U* values [[buffer(0)]],
                   device const U* weights [[buffer(1)]],
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
    sums[token * p.hidden + i] = O(row_sum<T, U>(values, place, p, token, i));
  }
  const int units = p.choices * p.weight_units;
  if (i < units) {
    to_weights[token * units + i] = weight_unit<U>(weights, place, p, token, i);
  }
}

#define ep_sum_of(T, U, O, name) \
  template [[host_name(name)]] [[kernel]] decltype(ep_sum<T, U, O>) ep_sum<T, U, O>;

ep_sum_of(float, uint, float, "ep_sum_f32")
ep_sum_of(float, ushort, float, "ep_sum_f32_2")
ep_sum_of(half, ushort, half, "ep_sum_f16")
ep_sum_of(bfloat, ushort, bfloat, "ep_sum_bf16")
ep_sum_of(half, ushort, float, "ep_sum_f16_f32")
ep_sum_of(bfloat, ushort, float, "ep_sum_bf16_f32")
ep_sum_of(float, ushort, half, "ep_sum_f32_f16")
ep_sum_of(float, ushort, bfloat, "ep_sum_f32_bf16")
ep_sum_of(half, ushort, bfloat, "ep_sum_f16_bf16")
ep_sum_of(bfloat, ushort, half, "ep_sum_bf16_f16")
ep_sum_of(e4m3, ushort, float, "ep_sum_f8_e4m3_f32")
ep_sum_of(e4m3, ushort, half, "ep_sum_f8_e4m3_f16")
ep_sum_of(e4m3, ushort, bfloat, "ep_sum_f8_e4m3_bf16")
ep_sum_of(e5m2, ushort, float, "ep_sum_f8_e5m2_f32")
ep_sum_of(e5m2, ushort, half, "ep_sum_f8_e5m2_f16")
ep_sum_of(e5m2, ushort, bfloat, "ep_sum_f8_e5m2_bf16")
