// ep_count: the number of a rank's pairs choosing each expert.
#include "histogram.metal"
#include "pair_faults.metal"
#include "scan.metal"

// ep_count counts the pairs of segment tg, using one simdgroup. If there is only one segment, it
// also completes the status.
template <typename T>
kernel void ep_count(device const T* ids [[buffer(0)]],
                     device int* counts [[buffer(1)]],
                     device atomic_int* status [[buffer(2)]],
                     constant pairs_params& p [[buffer(3)]],
                     threadgroup int* bins [[threadgroup(0)]],
                     uint tg [[threadgroup_position_in_grid]],
                     uint lane [[thread_index_in_simdgroup]]) {
  const int from = int(tg) * p.segment;
  const int to = min(from + p.segment, p.pairs);
  clear_bins(bins, p.experts, lane);
  for (int i = from + int(lane); i < to; i += 32) {
    report_pair<T>(status, ids, p, i);
  }
  count_segment<T>(bins, ids, p, int(tg), lane);
  store_bins(counts, bins, p, int(tg), lane);
  simdgroup_barrier(mem_flags::mem_device);
  if (p.segments == 1 && lane == 0) {
    explain_pair<T>(status, ids, p);
  }
}

template [[host_name("ep_count_i32")]] [[kernel]] decltype(ep_count<int>) ep_count<int>;
template [[host_name("ep_count_i64")]] [[kernel]] decltype(ep_count<long>) ep_count<long>;
