// The index for reading experts' rows from their tokens in place.
#include "common.metal"

struct through_params {
  int pairs;
  int choices;  // of a token
  int places;   // pairs having a row
  int rows;     // of the zones
};

// through_set writes the token of pair i to the pair's row of the zones. Other rows are neither
// written nor read.
kernel void through_set(device const int* place [[buffer(0)]],
                        device const int* order [[buffer(1)]],
                        device int* at [[buffer(2)]],
                        constant through_params& p [[buffer(3)]],
                        uint i [[thread_position_in_grid]]) {
  const int j = int(i) < p.pairs ? place[i] : -1;
  if (j < 0 || j >= p.places) {
    return;
  }
  const int row = order[j];
  if (row >= 0 && row < p.rows) {
    at[row] = int(i) / p.choices;
  }
}
