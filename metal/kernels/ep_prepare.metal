// ep_prepare: places of pairs in the queues of their experts, and dropping by the capacity.
#include "scan.metal"
#include "stable_place.metal"
#include "status.metal"

struct ep_prepare_params {
  int sources;   // ranks with different tokens
  int source;    // source of these pairs
  int experts;
  int capacity;  // 0 is none
  int align;
  int trap;      // a demand above the capacity is a mistake
};

// ep_prepare_totals computes, per expert, from the table [sources, experts] of pairs before drops:
// the demand, the rows kept, these rounded up, and the pairs on lower ranks; and the table of kept
// pairs. It is one threadgroup, of up to 256 threads. status[0] is the expert in highest demand
// above the capacity, the lowest among equals, and status[1] its demand.
kernel void ep_prepare_totals(device const int* table [[buffer(0)]],
                              device int* counts [[buffer(1)]],
                              device int* padded [[buffer(2)]],
                              device int* demand [[buffer(3)]],
                              device int* kept [[buffer(4)]],
                              device int* before [[buffer(5)]],
                              device atomic_int* status [[buffer(6)]],
                              constant ep_prepare_params& p [[buffer(7)]],
                              uint thread_index [[thread_index_in_threadgroup]],
                              uint threads [[threads_per_threadgroup]]) {
  threadgroup int highest[256];
  int most = 0;
  for (int e = int(thread_index); e < p.experts; e += int(threads)) {
    int sum = 0;
    for (int s = 0; s < p.sources; s++) {
      const int own = table[s * p.experts + e];
      if (s == p.source) {
        before[e] = sum;
      }
      const int left = max(p.capacity - sum, 0);
      kept[s * p.experts + e] = p.capacity > 0 ? min(own, left) : own;
      sum += own;
    }
    const int rows = p.capacity > 0 ? min(sum, p.capacity) : sum;
    demand[e] = sum;
    counts[e] = rows;
    padded[e] = p.align > 1 ? (rows + p.align - 1) / p.align * p.align : rows;
    most = max(most, sum);
  }
  highest[thread_index] = most;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint t = 0; t < threads; t++) {
    most = max(most, highest[t]);
  }
  if (p.trap == 0 || most <= p.capacity) {
    return;
  }
  for (int e = int(thread_index); e < p.experts; e += int(threads)) {
    if (demand[e] == most) {
      report(status, e);
      report(status + 1, most);
    }
  }
}

// ep_prepare_assign assigns the pairs of segment tg their places, using one simdgroup. earlier are,
// per expert and segment, the pairs in the rank's segments before, if there are several. Results
// are routing [pairs, 2], expert and place or -1 and -1, and dropped.
template <typename T>
kernel void ep_prepare_assign(device const T* ids [[buffer(0)]],
                              device const int* before [[buffer(1)]],
                              device const int* earlier [[buffer(2)]],
                              device int* routing [[buffer(3)]],
                              device uchar* dropped [[buffer(4)]],
                              constant pairs_params& p [[buffer(5)]],
                              constant ep_prepare_params& layer [[buffer(6)]],
                              threadgroup int* bins [[threadgroup(0)]],
                              uint tg [[threadgroup_position_in_grid]],
                              uint lane [[thread_index_in_simdgroup]]) {
  const int segment = int(tg);
  for (int e = int(lane); e < p.experts; e += 32) {
    bins[e] = before[e] + (p.segments > 1 ? earlier[e * p.segments + segment] : 0);
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  const int from = segment * p.segment;
  const int to = min(from + p.segment, p.pairs);
  for (int at = from; at < to; at += 32) {
    const int i = at + int(lane);
    const int expert = owned_pair<T>(ids, p, i);
    const int queue = stable_place(bins, expert, p.bits, lane);
    if (i < to) {
      const bool drop = layer.capacity > 0 && queue >= layer.capacity;
      routing[2 * i] = drop ? -1 : expert;
      routing[2 * i + 1] = drop ? -1 : queue;
      dropped[i] = drop ? 1 : 0;
    }
  }
}

template [[host_name("ep_prepare_assign_i32")]] [[kernel]] decltype(ep_prepare_assign<int>) ep_prepare_assign<int>;
template [[host_name("ep_prepare_assign_i64")]] [[kernel]] decltype(ep_prepare_assign<long>) ep_prepare_assign<long>;
