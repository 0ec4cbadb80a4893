// Places of pairs in a stable order by expert.
#include "histogram.metal"

// stable_place returns the bin of a lane's key plus the number of lanes before it with this key,
// and counts the lanes in their bins; -1 for a lane without a key. If each bin starts as the number
// of elements preceding its key's, and the simdgroup processes its elements 32 at a time and in
// order, these are their places in a stable order.
static inline int stable_place(threadgroup int* bins, int key, uint bits, uint lane) {
  const uint same = equal_lanes(key, bits);
  const int place = key >= 0 ? bins[key] + int(popcount(same & ((1u << lane) - 1u))) : -1;
  simdgroup_barrier(mem_flags::mem_threadgroup);
  if (key >= 0 && lane == ctz(same)) {
    bins[key] += int(popcount(same));
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  return place;
}
