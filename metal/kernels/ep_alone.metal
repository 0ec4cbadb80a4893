// ep_prepare_alone: places of a rank's pairs among the rank's own, if nothing is dropped.
#include "pair_faults.metal"
#include "scan.metal"
#include "stable_place.metal"
#include "zones.metal"

struct alone_params {
  int cells;   // of the table [sources, experts], 0 without
  int source;  // source of these pairs
};

// table_cell returns cell i of a table with the totals of one source, and zeros.
template <typename P>
static inline int table_cell(P totals, constant alone_params& p, int experts, int i) {
  return i / experts == p.source ? totals[i % experts] : 0;
}

// ep_padded writes the lengths of zones: counts, rounded up to a multiple of align.
kernel void ep_padded(device const int* counts [[buffer(0)]],
                      device int* padded [[buffer(1)]],
                      constant int& experts [[buffer(2)]],
                      constant int& align [[buffer(3)]],
                      uint e [[thread_position_in_grid]]) {
  if (int(e) < experts) {
    padded[e] = zone_length(counts[e], align);
  }
}

// ep_prepare_alone assigns the pairs of segment tg their places, using one simdgroup. earlier are,
// per expert, the pairs in the segments before, if there are several. If there is only one segment,
// it also writes the table and completes the status. Results are routing [pairs, 2], expert and
// place or -1 and -1, and dropped, which is 0.
template <typename T>
kernel void ep_prepare_alone(device const T* ids [[buffer(0)]],
                             device const int* earlier [[buffer(1)]],
                             device int* routing [[buffer(2)]],
                             device uchar* dropped [[buffer(3)]],
                             device int* table [[buffer(4)]],
                             device atomic_int* status [[buffer(5)]],
                             constant alone_params& alone [[buffer(6)]],
                             constant pairs_params& p [[buffer(7)]],
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
    if (i < to) {
      report_pair<T>(status, ids, p, i);
    }
    const int expert = owned_pair<T>(ids, p, i);
    const int queue = stable_place(bins, expert, p.bits, lane);
    if (i < to) {
      routing[2 * i] = expert;
      routing[2 * i + 1] = queue;
      dropped[i] = 0;
    }
  }
  simdgroup_barrier(mem_flags::mem_device);
  if (p.segments > 1) {
    return;
  }
  for (int i = int(lane); i < alone.cells; i += 32) {
    table[i] = table_cell(bins, alone, p.experts, i);
  }
  if (lane == 0) {
    explain_pair<T>(status, ids, p);
  }
}

// alone_table writes cell i of the table, from the totals of all segments.
kernel void alone_table(device const int* totals [[buffer(0)]],
                        device int* table [[buffer(1)]],
                        constant alone_params& alone [[buffer(2)]],
                        constant pairs_params& p [[buffer(3)]],
                        uint at [[thread_position_in_grid]]) {
  if (int(at) < alone.cells) {
    table[at] = table_cell(totals, alone, p.experts, int(at));
  }
}

template [[host_name("ep_prepare_alone_i32")]] [[kernel]] decltype(ep_prepare_alone<int>) ep_prepare_alone<int>;
template [[host_name("ep_prepare_alone_i64")]] [[kernel]] decltype(ep_prepare_alone<long>) ep_prepare_alone<long>;
