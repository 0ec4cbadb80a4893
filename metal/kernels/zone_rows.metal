// The kinds of rows of experts.
#include "zones.metal"

constant constexpr int row_past = 0;  // past the last zone: nothing
constant constexpr int row_used = 1;  // in use
constant constexpr int row_gap = 2;   // between the rows in use and the end of a zone: zeros

static inline int row_kind(device const int* counts, int experts, int align, int row) {
  int begin = 0;
  for (int e = 0; e < experts; e++) {
    int count = counts[e];
    int end = begin + zone_length(count, align);
    if (row < end) {
      return row - begin < count ? row_used : row_gap;
    }
    begin = end;
  }
  return row_past;
}
