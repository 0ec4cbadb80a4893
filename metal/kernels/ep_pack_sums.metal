// ep_pack_sums: for every received row, the sum of its rows of the zones and their weights, packed
// for the return path, in the rows' type or another.
#include "row_sum.metal"

// put_element writes element i of a row on the wire, rounded once.
static inline void put_element(device uint* row, int i, float x, float) { row[i] = as_type<uint>(x); }
static inline void put_element(device ushort* row, int i, float x, float) {
  row[2 * i] = ushort(as_type<uint>(x) & 0xffffu);
  row[2 * i + 1] = ushort(as_type<uint>(x) >> 16);
}
static inline void put_element(device ushort* row, int i, float x, half) { row[i] = as_type<ushort>(half(x)); }
static inline void put_element(device ushort* row, int i, float x, bfloat) { row[i] = as_type<ushort>(bfloat(x)); }

// ep_pack_sums is ep_sum to the wire, for the received rows: sizes are the numbers of rows sent to
// each member, and received from each. A row on the wire has `values` units of values, of type O,
// followed by its weights.
template <typename T, typename U, typename O>
kernel void ep_pack_sums(device const U* rows [[buffer(0)]],
                         device const U* weights [[buffer(1)]],
                         device const int* slots [[buffer(2)]],
                         device const int* sizes [[buffer(3)]],
                         device U* wire [[buffer(4)]],
                         constant int& members [[buffer(5)]],
                         constant int& values [[buffer(6)]],
                         constant sum_params& p [[buffer(7)]],
                         uint2 at [[thread_position_in_grid]]) {
  const int j = int(at.y);
  const int i = int(at.x);
  int arrived = 0;
  for (int m = 0; m < members; m++) {
    arrived += sizes[members + m];
  }
  if (j >= min(arrived, p.tokens)) {
    return;
  }
  const int units = p.choices * p.weight_units;
  device U* row = wire + j * (values + units);
  if (i < p.hidden) {
    put_element(row, i, row_sum<T, U>(rows, slots, p, j, i), O(0));
  }
  if (i < units) {
    row[values + i] = weight_unit<U>(weights, slots, p, j, i);
  }
}

#define ep_pack_sums_of(T, U, O, name) \
  template [[host_name("ep_pack_sums_" name)]] [[kernel]] decltype(ep_pack_sums<T, U, O>) ep_pack_sums<T, U, O>;

ep_pack_sums_of(float, uint, float, "f32")
ep_pack_sums_of(float, ushort, float, "f32_2")
ep_pack_sums_of(half, ushort, half, "f16")
ep_pack_sums_of(bfloat, ushort, bfloat, "bf16")
ep_pack_sums_of(float, ushort, half, "f32_f16")
ep_pack_sums_of(float, ushort, bfloat, "f32_bf16")
ep_pack_sums_of(half, ushort, float, "f16_f32")
ep_pack_sums_of(half, ushort, bfloat, "f16_bf16")
ep_pack_sums_of(bfloat, ushort, float, "bf16_f32")
ep_pack_sums_of(bfloat, ushort, half, "bf16_f16")
