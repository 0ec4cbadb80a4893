// Work on rows, each by one threadgroup. A row's result depends on the row alone.
#include "zones.metal"

enum { ROW_IN_USE, ROW_GAP, ROW_PAST };

// row_kind returns the kind of a row. `experts` zones start at multiples of align, and each of
// their rows is `per` rows of a kernel; without experts all rows are in use. The result is the same
// for all threads of a threadgroup. A row in a gap must be zeroed, and one past the zones is left
// unchanged.
static inline int row_kind(device const int* zones, int experts, int align, int per, int row) {
  if (experts == 0) {
    return ROW_IN_USE;
  }
  row /= per;
  int begin = 0;
  for (int e = 0; e < experts; e++) {
    int end = begin + zone_length(zones[e], align);
    if (row < end) {
      return row - begin < zones[e] ? ROW_IN_USE : ROW_GAP;
    }
    begin = end;
  }
  return ROW_PAST;
}

// Team is a thread's place in its threadgroup, of whole simdgroups in one dimension.
struct Team {
  int tid, threads, lane, group, groups;
};

static inline Team team_of(uint tid, uint threads) {
  Team t;
  t.tid = int(tid);
  t.threads = int(threads);
  t.lane = t.tid % 32;
  t.group = t.tid / 32;
  t.groups = t.threads / 32;
  return t;
}

// team_sum returns the sum of all threads' x: first within each simdgroup, then over these in
// order. room has a place per simdgroup. All threads call it.
static inline float team_sum(Team t, float x, threadgroup float* room) {
  x = simd_sum(x);
  if (t.groups == 1) {
    return x;
  }
  if (t.lane == 0) {
    room[t.group] = x;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float sum = 0.0f;
  for (int g = 0; g < t.groups; g++) {
    sum += room[g];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return sum;
}

// team_max returns the largest of all threads' x, and a NaN if one of them is.
static inline float team_max(Team t, float x, threadgroup float* room) {
  bool nan = simd_any(isnan(x));
  x = nan ? NAN : simd_max(x);
  if (t.groups == 1) {
    return x;
  }
  if (t.lane == 0) {
    room[t.group] = x;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float top = room[0];
  for (int g = 1; g < t.groups; g++) {
    top = isnan(top) || isnan(room[g]) ? NAN : max(top, room[g]);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return top;
}

// larger returns the larger of two numbers, and a NaN if one of them is.
static inline float larger(float a, float b) { return isnan(a) || isnan(b) ? NAN : max(a, b); }

// Lines lie along an axis: each has n elements with a stride of `inner`. The other fields are
// row_kind's.
struct Lines {
  int count, n, inner;
  int experts, align, per;
};

// line_start returns the start of line k.
static inline int line_start(int k, int n, int inner) { return k / inner * n * inner + k % inner; }
