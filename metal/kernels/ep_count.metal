// ep_count: how many of a rank's pairs choose each expert.
#include "histogram.metal"
#include "scan.metal"
#include "status.metal"

// report_pairs brings status[0] down to the first pair of the segment whose expert is
// neither -1 nor one that there is, and status[1] to the first whose expert does not fit
// into 32 bits.
template <typename T>
static inline void report_pairs(device atomic_int* status, device const T* ids, constant pairs_params& p, int segment, uint lane) {
  const int from = segment * p.segment;
  const int to = min(from + p.segment, p.pairs);
  for (int i = from + int(lane); i < to; i += 32) {
    const T expert = ids[i * p.stride];
    if (expert != T(-1) && owned<T>(expert, p.first, p.experts) < 0) {
      report(status, i);
      if (T(int(expert)) != expert) {
        report(status + 1, i);
      }
    }
  }
}

// explain_pair writes the expert of the pair that is reported: its low 32 bits to
// status[2], and its high ones to status[3].
template <typename T>
static inline void explain_pair(device atomic_int* status, device const T* ids, constant pairs_params& p) {
  int pair = atomic_load_explicit(status + 1, memory_order_relaxed);
  if (pair == status_clear) {
    pair = atomic_load_explicit(status, memory_order_relaxed);
  }
  if (pair == status_clear) {
    return;
  }
  const long expert = long(ids[pair * p.stride]);
  atomic_store_explicit(status + 2, int(uint(expert & 0xffffffffl)), memory_order_relaxed);
  atomic_store_explicit(status + 3, int(expert >> 32), memory_order_relaxed);
}

// ep_count counts the pairs of segment tg, with one simdgroup. Where there is only one
// segment, it also explains the status.
template <typename T>
kernel void ep_count(device const T* ids [[buffer(0)]],
                     device int* counts [[buffer(1)]],
                     device atomic_int* status [[buffer(2)]],
                     constant pairs_params& p [[buffer(3)]],
                     threadgroup int* bins [[threadgroup(0)]],
                     uint tg [[threadgroup_position_in_grid]],
                     uint lane [[thread_index_in_simdgroup]]) {
  clear_bins(bins, p.experts, lane);
  report_pairs<T>(status, ids, p, int(tg), lane);
  count_segment<T>(bins, ids, p, int(tg), lane);
  store_bins(counts, bins, p, int(tg), lane);
  simdgroup_barrier(mem_flags::mem_device);
  if (p.segments == 1 && lane == 0) {
    explain_pair<T>(status, ids, p);
  }
}

// ep_count_explain explains the status when all segments are done, with one thread.
template <typename T>
kernel void ep_count_explain(device const T* ids [[buffer(0)]],
                             device atomic_int* status [[buffer(1)]],
                             constant pairs_params& p [[buffer(2)]]) {
  explain_pair<T>(status, ids, p);
}

template [[host_name("ep_count_i32")]] [[kernel]] decltype(ep_count<int>) ep_count<int>;
template [[host_name("ep_count_i64")]] [[kernel]] decltype(ep_count<long>) ep_count<long>;
template [[host_name("ep_count_explain_i32")]] [[kernel]] decltype(ep_count_explain<int>) ep_count_explain<int>;
template [[host_name("ep_count_explain_i64")]] [[kernel]] decltype(ep_count_explain<long>) ep_count_explain<long>;
