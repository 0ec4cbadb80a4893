// Sums of all elements before each.
#include "common.metal"

// scan replaces each of n elements by `before` plus the sum of the elements before it, using one
// simdgroup, and returns the sum of all and `before`. P is a pointer to int, in device or
// threadgroup memory written by this simdgroup alone.
template <typename P>
static inline int scan(P x, int n, int before, uint lane) {
  for (int i = 0; i < n; i += 32) {
    const int at = i + int(lane);
    const int own = at < n ? x[at] : 0;
    const int sum = simd_prefix_exclusive_sum(own);
    if (at < n) {
      x[at] = before + sum;
    }
    before += simd_sum(own);
  }
  return before;
}

struct scan_params {
  int lines;
  int length;
};

// scan_lines scans lines of the given length in place, a simdgroup each, and writes the sum of
// every line.
kernel void scan_lines(device int* x [[buffer(0)]],
                       device int* sums [[buffer(1)]],
                       constant scan_params& p [[buffer(2)]],
                       uint tg [[threadgroup_position_in_grid]],
                       uint simdgroups [[simdgroups_per_threadgroup]],
                       uint simdgroup [[simdgroup_index_in_threadgroup]],
                       uint lane [[thread_index_in_simdgroup]]) {
  const int line = int(tg * simdgroups + simdgroup);
  if (line >= p.lines) {
    return;  // the whole simdgroup, and there is no barrier
  }
  const int sum = scan(x + line * p.length, p.length, 0, lane);
  if (lane == 0) {
    sums[line] = sum;
  }
}
