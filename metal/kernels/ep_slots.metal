// ep_slots: the rows of the zones filled by each received row.
#include "common.metal"

struct slots_params {
  int slots;    // received rows times choices
  int rows;     // of the zones
  int choices;  // of a token
};

kernel void slots_clear(device int* slots [[buffer(0)]],
                        constant slots_params& p [[buffer(1)]],
                        uint at [[thread_position_in_grid]]) {
  if (int(at) < p.slots) {
    slots[at] = -1;
  }
}

// slots_set writes row i of the zones to the slot of the row and the choice filling it.
kernel void slots_set(device const int* from [[buffer(0)]],
                      device const int* choice [[buffer(1)]],
                      device int* slots [[buffer(2)]],
                      constant slots_params& p [[buffer(3)]],
                      uint at [[thread_position_in_grid]]) {
  const int i = int(at);
  if (i >= p.rows || from[i] < 0) {
    return;
  }
  const int slot = from[i] * p.choices + choice[i];
  if (slot < p.slots) {
    slots[slot] = i;
  }
}
