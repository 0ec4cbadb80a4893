// The lanes of a simdgroup having equal keys.
#include "common.metal"

// lanes_where returns a bit for each lane, set where yes is true.
static inline uint lanes_where(bool yes) { return uint(static_cast<simd_vote::vote_t>(simd_ballot(yes))); }

// equal_lanes returns the lanes having this lane's key, which is less than 2^bits. Lanes with a
// negative key have none; their result is meaningless.
static inline uint equal_lanes(int key, uint bits) {
  uint same = lanes_where(key >= 0);
  for (uint b = 0; b < bits; b++) {
    const bool one = key >= 0 && ((uint(key) >> b) & 1u) != 0;
    const uint ones = lanes_where(one);
    same &= one ? ones : ~ones;
  }
  return same;
}
