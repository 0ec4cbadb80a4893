// Checking indices, and lists of indices naming the same place.
#include "common.metal"

// check_indices records the first of p[0] indices below p[1] or not below p[2], and its value. It
// is launched with one threadgroup.
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

// list_clear empties p[0] lists; an empty one starts at p[1].
kernel void list_clear(device int* begins [[buffer(0)]],
                       constant int* p [[buffer(1)]],
                       uint gid [[thread_position_in_grid]]) {
  if (int(gid) < p[0]) {
    begins[gid] = p[1];
  }
}

// list_link makes lists of p[1] indices naming p[0] places, each list being empty before. It goes
// from the last indices to the first, `threads` at a time: an index is followed by the next equal
// one among these or, if there is none, by the start of the list so far. It is launched with one
// threadgroup.
kernel void list_link(device const int* indices [[buffer(0)]],
                      device int* begins [[buffer(1)]],
                      device int* next [[buffer(2)]],
                      constant int* p [[buffer(3)]],
                      threadgroup int* ids [[threadgroup(0)]],
                      uint tid [[thread_position_in_threadgroup]],
                      uint threads [[threads_per_threadgroup]]) {
  int mine = int(tid), many = int(threads);
  for (int first = (p[1] - 1) / many * many; first >= 0; first -= many) {
    int i = first + mine;
    int id = i < p[1] ? indices[i] : -1;
    bool there = id >= 0 && id < p[0]; // others are reported elsewhere
    ids[mine] = id;
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    bool begins_here = there;
    if (there) {
      int after = mine + 1;
      while (after < many && ids[after] != id) {
        after++;
      }
      next[i] = after < many ? first + after : begins[id];
      for (int t = 0; t < mine && begins_here; t++) {
        begins_here = ids[t] != id;
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    if (begins_here) {
      begins[id] = i;
    }
  }
}
