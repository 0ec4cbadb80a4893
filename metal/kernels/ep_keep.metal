// ep_keep: the choices of the whole batch without the pairs dropped by the capacity.
#include "scan.metal"
#include "stable_place.metal"

// ep_keep writes the pairs of segment tg, using one simdgroup: -1 for pairs whose place in the
// queue of their expert is not below the capacity. earlier are, per expert and segment, the pairs
// in the segments before, if there are several segments.
kernel void ep_keep(device const int* chosen [[buffer(0)]],
                    device const int* earlier [[buffer(1)]],
                    device int* kept [[buffer(2)]],
                    constant int& capacity [[buffer(3)]],
                    constant pairs_params& p [[buffer(4)]],
                    threadgroup int* bins [[threadgroup(0)]],
                    uint tg [[threadgroup_position_in_grid]],
                    uint lane [[thread_index_in_simdgroup]]) {
  const int segment = int(tg);
  for (int e = int(lane); e < p.experts; e += 32) {
    bins[e] = p.segments > 1 ? earlier[e * p.segments + segment] : 0;
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  const int from = segment * p.segment;
  const int to = min(from + p.segment, p.pairs);
  for (int at = from; at < to; at += 32) {
    const int i = at + int(lane);
    const int expert = owned_pair<int>(chosen, p, i);
    const int queue = stable_place(bins, expert, p.bits, lane);
    if (i < to) {
      kept[i] = queue < capacity ? expert : -1;
    }
  }
}
