// Checks indices before they are used.
#include "common.metal"

struct IDs {
  int count, lo, n;
};

// check_ids writes to the record the place and the value of the first of the ids below lo
// or not below n. One threadgroup looks at all of them.
kernel void check_ids(device const int* ids [[buffer(0)]], device int* record [[buffer(1)]],
                      constant IDs& p [[buffer(2)]], uint tid [[thread_position_in_threadgroup]],
                      uint threads [[threads_per_threadgroup]]) {
  threadgroup int first[256];
  int mine = p.count;
  for (int i = int(tid); i < p.count; i += int(threads)) {
    if (ids[i] < p.lo || ids[i] >= p.n) {
      mine = i;
      break;
    }
  }
  first[tid] = mine;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (tid == 0) {
    for (uint t = 1; t < threads; t++) {
      mine = min(mine, first[t]);
    }
    if (mine < p.count) {
      record[0] = mine;
      record[1] = ids[mine];
    }
  }
}
