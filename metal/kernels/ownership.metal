// Ownership of the experts chosen by pairs: a range of experts, such as all, or one rank's.
#include "common.metal"

// owned returns the place of an expert among `count` from `first` on, or -1 for one outside of the
// range, such as -1 for none.
template <typename T>
static inline int owned(T expert, int first, int count) {
  if (expert < T(first) || expert - T(first) >= T(count)) {
    return -1;
  }
  return int(expert - T(first));
}

// Pairs are the choices of tokens. A simdgroup processes the pairs from `from` to `to`. The expert
// chosen by pair i is ids[i * stride].
struct pairs_params {
  int pairs;
  int segment;   // pairs of a simdgroup, a multiple of 32
  int segments;  // simdgroups
  int stride;
  int first;     // owned experts
  int experts;
  uint bits;     // bits needed for the places of owned experts
};

// owned_pair returns the place of pair i's expert among the owned ones, or -1 for none and for a
// nonexistent pair.
template <typename T>
static inline int owned_pair(device const T* ids, constant pairs_params& p, int i) {
  return i < p.pairs ? owned<T>(ids[i * p.stride], p.first, p.experts) : -1;
}
