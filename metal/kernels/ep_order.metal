// ep_order: the rows of the zones filled by a rank's own pairs.
#include "common.metal"

struct order_params {
  int pairs;
  int choices;  // of a token
  int places;   // pairs having a row
  int rows;     // of the zones
};

kernel void order_clear(device int* from [[buffer(0)]],
                        device int* choice [[buffer(1)]],
                        constant order_params& p [[buffer(2)]],
                        uint i [[thread_position_in_grid]]) {
  if (int(i) < p.rows) {
    from[i] = -1;
    choice[i] = -1;
  }
}

// order_set writes the row of pair i to home[i], and the pair's token and choice to from and choice of the row.
kernel void order_set(device const int* place [[buffer(0)]],
                      device const int* order [[buffer(1)]],
                      device int* home [[buffer(2)]],
                      device int* from [[buffer(3)]],
                      device int* choice [[buffer(4)]],
                      constant order_params& p [[buffer(5)]],
                      uint i [[thread_position_in_grid]]) {
  if (int(i) >= p.pairs) {
    return;
  }
  const int j = place[i];
  const int row = j >= 0 && j < p.places ? order[j] : -1;
  home[i] = row;
  if (row >= 0 && row < p.rows) {
    from[row] = int(i) / p.choices;
    choice[row] = int(i) % p.choices;
  }
}
