// ep_recv_order: the destination row of each received row.
//
// The received rows are runs, one per member and local expert, in this order: the member's pairs
// for the expert. In the expert's zone, a run follows the runs of the members before.
#include "group.metal"
#include "scan.metal"
#include "status.metal"

// run_of returns the last of n runs starting at or before j: the run containing it.
static inline int run_of(threadgroup const int* begins, int n, int j) {
  int lo = 0;
  int hi = n;
  while (hi - lo > 1) {
    const int mid = (lo + hi) / 2;
    if (begins[mid] <= j) {
      lo = mid;
    } else {
      hi = mid;
    }
  }
  return lo;
}

// ep_recv_order writes the destinations of `each` received rows, from tg · each on, and nothing
// past the last. memory is begin[members · local] and row[members · local] of the runs and
// zone[local + 1], the starts of the zones. If the rows exceed the capacity, status[0] becomes 0
// and status[1] their number.
kernel void ep_recv_order(device const int* kept [[buffer(0)]],
                          device int* order [[buffer(1)]],
                          device atomic_int* status [[buffer(2)]],
                          constant int* sources [[buffer(3)]],
                          constant group_params& p [[buffer(4)]],
                          constant int& each [[buffer(5)]],
                          threadgroup int* memory [[threadgroup(0)]],
                          uint tg [[threadgroup_position_in_grid]],
                          uint thread_index [[thread_index_in_threadgroup]],
                          uint threads [[threads_per_threadgroup]],
                          uint simdgroup [[simdgroup_index_in_threadgroup]],
                          uint lane [[thread_index_in_simdgroup]]) {
  const int runs = p.members * p.local;
  threadgroup int* begin = memory;
  threadgroup int* row = begin + runs;
  threadgroup int* zone = row + runs;
  threadgroup int* ends = zone + p.local;  // end of the received rows, and of the zones
  for (int e = int(thread_index); e < p.local; e += int(threads)) {
    int rows = 0;
    for (int m = 0; m < p.members; m++) {
      const int n = group_pairs(kept, sources, p, m, e);
      begin[m * p.local + e] = n;
      row[m * p.local + e] = rows;
      rows += n;
    }
    zone[e] = zone_length(rows, p.align);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simdgroup == 0) {
    const int arrive = scan(begin, runs, 0, lane);
    const int used = scan(zone, p.local, 0, lane);
    if (lane == 0) {
      ends[0] = arrive;
      ends[1] = used;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const int used = ends[1];
  if (used > p.rows && tg == 0 && thread_index == 0) {
    report(status, 0);
    report(status + 1, used);
  }
  const int from = int(tg) * each;
  const int to = min(min(from + each, ends[0]), p.rows);
  for (int j = from + int(thread_index); j < to; j += int(threads)) {
    const int r = run_of(begin, runs, j);
    const int at = zone[r % p.local] + row[r] + j - begin[r];
    order[j] = used <= p.rows ? at : -1;
  }
}
