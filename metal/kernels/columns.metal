// Sums over rows, for the gradients of values shared by all rows. Rows are divided into chunks of
// COLUMN_ROWS. Their sums are added in order afterwards, so that the order depends only on the
// number of rows.
#include "rows.metal"

enum { COLUMN_ROWS = 256, COLUMN_TEAMS = 8 };

// column_total adds up the sums of the COLUMN_TEAMS threads of a column, in order. room has a place
// per thread of the threadgroup, 32 columns by COLUMN_TEAMS.
static inline float column_total(float mine, uint2 tid, threadgroup float* room) {
  room[tid.y * 32 + tid.x] = mine;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float sum = 0.0f;
  if (tid.y == 0) {
    for (int g = 0; g < COLUMN_TEAMS; g++) {
      sum += room[g * 32 + tid.x];
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return sum;
}

struct Columns {
  int rows, n, chunks;
  int experts, align, per;
};

// sum_chunks adds the chunks' sums, partial[chunks, n], in order.
template <typename T>
kernel void sum_chunks(device const float* partial [[buffer(0)]], device T* sum [[buffer(1)]],
                       constant Columns& p [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  if (int(i) >= p.n) {
    return;
  }
  float s = 0.0f;
  for (int c = 0; c < p.chunks; c++) {
    s += partial[c * p.n + int(i)];
  }
  sum[i] = T(s);
}

#define INSTANTIATE(suffix, T) \
  template [[host_name("sum_chunks_" #suffix)]] [[kernel]] decltype(sum_chunks<T>) sum_chunks<T>;
INSTANTIATE(f32, float)
INSTANTIATE(f16, half)
INSTANTIATE(bf16, bfloat)
#undef INSTANTIATE
