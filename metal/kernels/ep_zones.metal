// ep_zones: the rows of each of the rank's experts.
#include "group.metal"
#include "status.metal"

// ep_zones writes them, using one simdgroup. If they exceed the capacity, status[0] becomes 0 and
// status[1] their number, and the experts have none, so that nothing is written out of bounds
// later.
kernel void ep_zones(device const int* kept [[buffer(0)]],
                     device int* counts [[buffer(1)]],
                     device atomic_int* status [[buffer(2)]],
                     constant int* sources [[buffer(3)]],
                     constant group_params& p [[buffer(4)]],
                     uint lane [[thread_index_in_simdgroup]]) {
  int used = 0;
  for (int e = int(lane); e < p.local; e += 32) {
    int rows = 0;
    for (int m = 0; m < p.members; m++) {
      rows += group_pairs(kept, sources, p, m, e);
    }
    counts[e] = rows;
    used += zone_length(rows, p.align);
  }
  used = simd_sum(used);
  if (used <= p.rows) {
    return;
  }
  if (lane == 0) {
    report(status, 0);
    report(status + 1, used);
  }
  for (int e = int(lane); e < p.local; e += 32) {
    counts[e] = 0;
  }
}
