// ep_table: the number of pairs of each source choosing each expert.
#include "common.metal"

struct table_params {
  int experts;
  int choices;  // of a token
};

// ep_table counts the pairs of source tg, with tokens starts[tg] to starts[tg + 1]. Counts are
// integers, so the order of adding to them does not matter.
kernel void ep_table(device const int* chosen [[buffer(0)]],
                     device int* table [[buffer(1)]],
                     constant int* starts [[buffer(2)]],
                     constant table_params& p [[buffer(3)]],
                     threadgroup atomic_int* bins [[threadgroup(0)]],
                     uint tg [[threadgroup_position_in_grid]],
                     uint thread_index [[thread_index_in_threadgroup]],
                     uint threads [[threads_per_threadgroup]]) {
  for (int e = int(thread_index); e < p.experts; e += int(threads)) {
    atomic_store_explicit(bins + e, 0, memory_order_relaxed);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const int to = starts[tg + 1] * p.choices;
  for (int i = starts[tg] * p.choices + int(thread_index); i < to; i += int(threads)) {
    const int e = chosen[i];
    if (e >= 0 && e < p.experts) {
      atomic_fetch_add_explicit(bins + e, 1, memory_order_relaxed);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (int e = int(thread_index); e < p.experts; e += int(threads)) {
    table[int(tg) * p.experts + e] = atomic_load_explicit(bins + e, memory_order_relaxed);
  }
}
