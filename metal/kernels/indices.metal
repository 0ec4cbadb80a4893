// Indices that are checked, and lists of those that name the same place.
#include "common.metal"

// check_indices records the first of indices below p[1] or not below p[2], of p[0], and
// what it is. It is launched with one threadgroup.
kernel void check_indices(device const int* indices [[buffer(0)]],
                          device int* status [[buffer(1)]],
                          constant int* p [[buffer(2)]],
                          threadgroup int* first [[threadgroup(0)]],
                          uint tid [[thread_position_in_threadgroup]],
                          uint threads [[threads_per_threadgroup]]) {
  int bad = p[0];
  for (int i = int(tid); i < p[0]; i += int(threads)) {
    if (bad == p[0] && (indices[i] < p[1] || indices[i] >= p[2])) {
      bad = i;
    }
  }
  first[tid] = bad;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (tid == 0) {
    for (uint t = 1; t < threads; t++) {
      bad = min(bad, first[t]);
    }
    if (bad < p[0] && bad < status[0]) {
      status[0] = bad;
      status[1] = indices[bad];
    }
  }
}

// list_clear empties p[0] lists; an empty one begins at p[1].
kernel void list_clear(device int* begins [[buffer(0)]],
                       constant int* p [[buffer(1)]],
                       uint gid [[thread_position_in_grid]]) {
  if (int(gid) < p[0]) {
    begins[gid] = p[1];
  }
}

// list_begin finds where each list begins: at the first of p[1] indices that names it.
kernel void list_begin(device const int* indices [[buffer(0)]],
                       device atomic_int* begins [[buffer(1)]],
                       constant int* p [[buffer(2)]],
                       uint gid [[thread_position_in_grid]]) {
  if (int(gid) < p[1]) {
    int id = indices[gid];
    if (id >= 0 && id < p[0]) {
      atomic_fetch_min_explicit(&begins[id], int(gid), memory_order_relaxed);
    }
  }
}

// list_next finds what follows each index in its list: the next that is equal, or p[1].
kernel void list_next(device const int* indices [[buffer(0)]],
                      device int* next [[buffer(1)]],
                      constant int* p [[buffer(2)]],
                      uint gid [[thread_position_in_grid]]) {
  if (int(gid) < p[1]) {
    int id = indices[gid];
    int at = int(gid) + 1;
    while (at < p[1] && indices[at] != id) {
      at++;
    }
    next[gid] = at;
  }
}
