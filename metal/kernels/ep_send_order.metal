// ep_send_order: the place of each pair's row among the sent rows, ordered by (expert, token,
// choice).
#include "scan.metal"
#include "stable_place.metal"

// ep_send_order writes the places of the pairs of segment tg, -1 for one without an owned expert,
// using one simdgroup. If there are several segments, totals are the pairs of each expert in all of
// them, and earlier the pairs in the segments before.
kernel void ep_send_order(device const int* routing [[buffer(0)]],
                          device const int* totals [[buffer(1)]],
                          device const int* earlier [[buffer(2)]],
                          device int* place [[buffer(3)]],
                          constant pairs_params& p [[buffer(4)]],
                          threadgroup int* bins [[threadgroup(0)]],
                          uint tg [[threadgroup_position_in_grid]],
                          uint lane [[thread_index_in_simdgroup]]) {
  const int segment = int(tg);
  if (p.segments == 1) {
    clear_bins(bins, p.experts, lane);
    count_segment<int>(bins, routing, p, segment, lane);
  } else {
    for (int e = int(lane); e < p.experts; e += 32) {
      bins[e] = totals[e];
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
  scan(bins, p.experts, 0, lane);
  simdgroup_barrier(mem_flags::mem_threadgroup);
  if (p.segments > 1) {
    for (int e = int(lane); e < p.experts; e += 32) {
      bins[e] += earlier[e * p.segments + segment];
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
  const int from = segment * p.segment;
  const int to = min(from + p.segment, p.pairs);
  for (int at = from; at < to; at += 32) {
    const int i = at + int(lane);
    const int j = stable_place(bins, owned_pair<int>(routing, p, i), p.bits, lane);
    if (i < to) {
      place[i] = j;
    }
  }
}
