// Products of arrays of 32-bit integers, which wrap, without tiles.
#include "common.metal"

#define DOT_AXES 12

struct dot_integers_params {
  int results, products;  // number of results, and of products per result
  int kept[DOT_AXES];     // sizes of the results' dimensions, the last varying fastest
  uint a_kept[DOT_AXES], b_kept[DOT_AXES];
  int summed[DOT_AXES];
  uint a_summed[DOT_AXES], b_summed[DOT_AXES];
};

kernel void dot_integers(device const uint* a [[buffer(0)]], device const uint* b [[buffer(1)]], device uint* c [[buffer(2)]],
                         constant dot_integers_params& p [[buffer(3)]], uint i [[thread_position_in_grid]]) {
  if (int(i) >= p.results) {
    return;
  }
  uint a_at = 0, b_at = 0, rest = i;
  for (int d = DOT_AXES - 1; d >= 0; d--) {
    const uint n = uint(p.kept[d]), j = rest % n;
    rest /= n;
    a_at += j * p.a_kept[d];
    b_at += j * p.b_kept[d];
  }
  uint sum = 0;
  for (int k = 0; k < p.products; k++) {
    uint a_k = a_at, b_k = b_at, left = uint(k);
    for (int d = DOT_AXES - 1; d >= 0; d--) {
      const uint n = uint(p.summed[d]), j = left % n;
      left /= n;
      a_k += j * p.a_summed[d];
      b_k += j * p.b_summed[d];
    }
    sum += a[a_k] * b[b_k];
  }
  c[i] = sum;
}
