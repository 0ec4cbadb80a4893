// The ranks exchanging rows, and each rank's pairs for the experts of this one.
#include "zones.metal"

struct group_params {
  int members;  // ranks of the group
  int experts;  // of the layer
  int first;    // the first of the rank's experts
  int local;    // number of the rank's experts
  int align;
  int rows;     // capacity in rows
};

// group_pairs returns the pairs of member m for local expert e. kept is the table [sources,
// experts] after drops, and sources the rows of the members in it.
static inline int group_pairs(device const int* kept, constant int* sources, constant group_params& p, int m, int e) {
  return kept[sources[m] * p.experts + p.first + e];
}
