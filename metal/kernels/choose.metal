// The largest of a simdgroup's elements, one after the other.
//
// Elements are chosen by keys, integers ordered like the elements. Lane l alone reads and writes
// the keys of elements l, l + 32 and so on, which are in threadgroup memory.
#include "common.metal"

// chosen_key is the key of an element that cannot be chosen, or no longer: less than the key of any
// number.
constant int chosen_key = -2147483647 - 1;

// bits_key orders numbers by their bits: -0 is less than 0.
static inline int bits_key(float x) {
  const int bits = as_type<int>(x);
  return bits < 0 ? bits ^ 0x7fffffff : bits;
}

// number_key orders numbers as comparisons do: -0 and 0 are equal.
static inline int number_key(float x) { return bits_key(x == 0.0f ? 0.0f : x); }

// choose_largest returns the element with the largest key, the first among equals, and excludes it
// from later calls; n if there is none.
static inline int choose_largest(threadgroup int* keys, int n, uint lane) {
  int largest = chosen_key;
  int own = n;
  for (int e = int(lane); e < n; e += 32) {
    if (keys[e] > largest) {
      largest = keys[e];
      own = e;
    }
  }
  const int first = simd_min(largest == simd_max(largest) ? own : n);
  if (first < n && uint(first) % 32 == lane) {
    keys[first] = chosen_key;
  }
  return first;
}
