// The largest elements of rows, in descending order.
#include "choose.metal"

struct top_k_params {
  int rows;
  int columns;
  int k;
  int words;  // of threadgroup memory for a simdgroup
};

// top_k serves one row per simdgroup. NaNs are the largest, and -0 is less than 0; memory is the
// keys of a row for each simdgroup.
template <typename T>
kernel void top_k(device const T* x [[buffer(0)]],
                  device T* values [[buffer(1)]],
                  device int* indices [[buffer(2)]],
                  constant top_k_params& p [[buffer(3)]],
                  threadgroup int* memory [[threadgroup(0)]],
                  uint tg [[threadgroup_position_in_grid]],
                  uint simdgroups [[simdgroups_per_threadgroup]],
                  uint simdgroup [[simdgroup_index_in_threadgroup]],
                  uint lane [[thread_index_in_simdgroup]]) {
  const int row = int(tg * simdgroups + simdgroup);
  if (row >= p.rows) {
    return;  // the whole simdgroup, and there is no barrier of the threadgroup
  }
  threadgroup int* keys = memory + int(simdgroup) * p.words;
  device const T* own = x + row * p.columns;
  for (int i = int(lane); i < p.columns; i += 32) {
    const float v = float(own[i]);
    keys[i] = isnan(v) ? 0x7fffffff : bits_key(v);
  }
  for (int k = 0; k < p.k; k++) {
    const int i = choose_largest(keys, p.columns, lane);
    if (lane == 0) {
      values[row * p.k + k] = own[i];
      indices[row * p.k + k] = i;
    }
  }
}

#define top_k_of(T, name) \
  template [[host_name(name)]] [[kernel]] decltype(top_k<T>) top_k<T>;

top_k_of(float, "top_k_f32")
top_k_of(half, "top_k_f16")
top_k_of(bfloat, "top_k_bf16")
