// The members of a group owning the experts chosen by pairs.
#include "common.metal"

// owner returns the member owning an expert; the experts of a member start at starts[member].
static inline int owner(constant int* starts, int members, int expert) {
  int m = 0;
  while (m + 1 < members && expert >= starts[m + 1]) {
    m++;
  }
  return m;
}

// lead_of returns the first choice of a token owned by the same member as choice c, which is kept.
// The expert of choice c is chosen[c * stride].
static inline int lead_of(device const int* chosen, int stride, constant int* starts, int members, int c) {
  const int m = owner(starts, members, chosen[c * stride]);
  for (int i = 0; i < c; i++) {
    if (chosen[i * stride] >= 0 && owner(starts, members, chosen[i * stride]) == m) {
      return i;
    }
  }
  return c;
}
