// Rows of experts in zones: expert e's rows start where the zone of e-1 ends, and a zone has the
// length of its rows in use, rounded up to a multiple of align.
#include "common.metal"

// zone_length returns the rows of a zone with count rows in use.
static inline int zone_length(int count, int align) {
  return align > 1 ? (count + align - 1) / align * align : count;
}

// zones_end returns the rows of all zones together.
static inline int zones_end(device const int* counts, int experts, int align) {
  int end = 0;
  for (int e = 0; e < experts; e++) {
    end += zone_length(counts[e], align);
  }
  return end;
}

// row_in_use reports whether a row of some zone is in use.
static inline bool row_in_use(device const int* counts, int experts, int align, int row) {
  int begin = 0;
  for (int e = 0; e < experts; e++) {
    int end = begin + zone_length(counts[e], align);
    if (row < end) {
      return row - begin < counts[e];
    }
    begin = end;
  }
  return false;
}
