// The number of pairs choosing each expert.
//
// Pairs are divided into segments, one for each simdgroup, which counts its own: bins are its
// threadgroup memory. The segments' counts are stored expert by expert, counts[expert * segments +
// segment], to be scanned: see scan.metal.
#include "equal_lanes.metal"
#include "ownership.metal"

// clear_bins sets a simdgroup's bins to 0.
static inline void clear_bins(threadgroup int* bins, int n, uint lane) {
  for (int e = int(lane); e < n; e += 32) {
    bins[e] = 0;
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
}

// count_lanes adds 1 to the bin of every lane's key, if it has one.
static inline void count_lanes(threadgroup int* bins, int key, uint bits, uint lane) {
  const uint same = equal_lanes(key, bits);
  if (key >= 0 && lane == ctz(same)) {
    bins[key] += int(popcount(same));
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
}

// count_segment adds a segment's pairs to bins.
template <typename T>
static inline void count_segment(threadgroup int* bins, device const T* ids, constant pairs_params& p, int segment, uint lane) {
  const int from = segment * p.segment;
  const int to = min(from + p.segment, p.pairs);
  for (int i = from; i < to; i += 32) {
    count_lanes(bins, owned_pair<T>(ids, p, i + int(lane)), p.bits, lane);
  }
}

// store_bins writes a segment's bins to the counts of all segments.
static inline void store_bins(device int* counts, threadgroup const int* bins, constant pairs_params& p, int segment, uint lane) {
  for (int e = int(lane); e < p.experts; e += 32) {
    counts[e * p.segments + segment] = bins[e];
  }
}

// histogram counts the pairs of segment tg, with one simdgroup.
template <typename T>
kernel void histogram(device const T* ids [[buffer(0)]],
                      device int* counts [[buffer(1)]],
                      constant pairs_params& p [[buffer(2)]],
                      threadgroup int* bins [[threadgroup(0)]],
                      uint tg [[threadgroup_position_in_grid]],
                      uint lane [[thread_index_in_simdgroup]]) {
  clear_bins(bins, p.experts, lane);
  count_segment<T>(bins, ids, p, int(tg), lane);
  store_bins(counts, bins, p, int(tg), lane);
}

template [[host_name("histogram_i32")]] [[kernel]] decltype(histogram<int>) histogram<int>;
template [[host_name("histogram_i64")]] [[kernel]] decltype(histogram<long>) histogram<long>;
