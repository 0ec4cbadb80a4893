// ep_pack_rows_f8 and ep_pack_sums_f8: rows of the zones, or their sums, packed for the return path in 8
// bits.
//
// Threads are [32 for each block of a row, rows]: a simdgroup has a block, and each of its threads 4
// elements. The first threads of a row also copy its weights.
#include "row_copy.metal"
#include "row_sum.metal"

static inline uchar f8_code(float x, e4m3) { return f8_e4m3_code(x); }
static inline uchar f8_code(float x, e5m2) { return f8_e5m2_code(x); }
static inline float largest_f8(e4m3) { return 448.0f; }
static inline float largest_f8(e5m2) { return 57344.0f; }

// put_block writes a block of a row on the wire and its scale, which maps the largest element of the block
// to the largest code. Magnitudes are compared by their bits, so that a NaN is the largest.
template <typename F>
static inline void put_block(device ushort* row, int hidden, int block, float4 x, uint lane, F f) {
  const uint4 bits = as_type<uint4>(x) & 0x7fffffffu;
  const float most = as_type<float>(simd_max(max(max(bits.x, bits.y), max(bits.z, bits.w))));
  float scale = most / largest_f8(f);
  if (scale == 0.0f) {
    scale = 1.0f;
  }
  device ushort* codes = row + block * (WIRE_BLOCK / 2) + int(lane) * 2;
  codes[0] = ushort(uint(f8_code(x.x / scale, f)) | uint(f8_code(x.y / scale, f)) << 8);
  codes[1] = ushort(uint(f8_code(x.z / scale, f)) | uint(f8_code(x.w / scale, f)) << 8);
  if (lane == 0) {
    device ushort* to = row + hidden / 2 + block * 2;
    to[0] = ushort(as_type<uint>(scale) & 0xffffu);
    to[1] = ushort(as_type<uint>(scale) >> 16);
  }
}

// pack_f8 writes a block of row j on the wire, which has `values` units of codes and scales, followed by
// its weights: the sum of its rows, or, if SUM is false, its only row.
template <typename T, typename F, bool SUM>
static inline void pack_f8(device const ushort* rows, device const ushort* weights, device const int* place, device ushort* wire,
                           int values, constant sum_params& p, int j, int i, uint lane) {
  const int units = p.choices * p.weight_units, block = i / 32;
  device ushort* row = wire + j * (values + units);
  if (block < p.hidden / WIRE_BLOCK) {
    const int first = block * WIRE_BLOCK + int(lane) * 4;
    float4 x;
    for (int e = 0; e < 4; e++) {
      x[e] = SUM ? row_sum<T, ushort>(rows, place, p, j, first + e) : element(rows + place[j] * p.row_units, first + e, T(), p.hidden);
    }
    put_block(row, p.hidden, block, x, lane, F());
  }
  if (i < units) {
    row[values + i] = weight_unit<ushort>(weights, place, p, j, i);
  }
}

// ep_pack_rows_f8 is ep_pack_rows in 8 bits.
template <typename T, typename F>
kernel void ep_pack_rows_f8(device const ushort* rows [[buffer(0)]], device const ushort* weights [[buffer(1)]], device const int* order [[buffer(2)]],
                            device const int* counts [[buffer(3)]], device ushort* wire [[buffer(4)]], constant int& experts [[buffer(5)]],
                            constant int& values [[buffer(6)]], constant sum_params& p [[buffer(7)]],
                            uint2 at [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  const int j = int(at.y), used = counted(counts, experts, lane);
  if (j >= min(used, p.tokens) || row_of(order, p, j) < 0) {
    return;
  }
  pack_f8<T, F, false>(rows, weights, order, wire, values, p, j, int(at.x), lane);
}

// ep_pack_sums_f8 is ep_pack_sums in 8 bits.
template <typename T, typename F>
kernel void ep_pack_sums_f8(device const ushort* rows [[buffer(0)]], device const ushort* weights [[buffer(1)]], device const int* slots [[buffer(2)]],
                            device const int* sizes [[buffer(3)]], device ushort* wire [[buffer(4)]], constant int& members [[buffer(5)]],
                            constant int& values [[buffer(6)]], constant sum_params& p [[buffer(7)]],
                            uint2 at [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  const int j = int(at.y);
  int arrived = 0;
  for (int m = 0; m < members; m++) {
    arrived += sizes[members + m];
  }
  if (j < min(arrived, p.tokens)) {
    pack_f8<T, F, true>(rows, weights, slots, wire, values, p, j, int(at.x), lane);
  }
}

#define ep_pack_f8_of(f, T, F, name) \
  template [[host_name(#f "_" name)]] [[kernel]] decltype(f##_f8<T, F>) f##_f8<T, F>;
#define ep_pack_f8(f)                            \
  ep_pack_f8_of(f, float, e4m3, "f32_f8_e4m3")   \
  ep_pack_f8_of(f, half, e4m3, "f16_f8_e4m3")    \
  ep_pack_f8_of(f, bfloat, e4m3, "bf16_f8_e4m3") \
  ep_pack_f8_of(f, float, e5m2, "f32_f8_e5m2")   \
  ep_pack_f8_of(f, half, e5m2, "f16_f8_e5m2")    \
  ep_pack_f8_of(f, bfloat, e5m2, "bf16_f8_e5m2")

ep_pack_f8(ep_pack_rows)
ep_pack_f8(ep_pack_sums)
ep_pack_f8_of(ep_pack_sums, e4m3, e4m3, "f8_e4m3")
ep_pack_f8_of(ep_pack_sums, e5m2, e5m2, "f8_e5m2")
