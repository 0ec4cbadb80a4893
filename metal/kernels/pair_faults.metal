// Mistakes in the experts chosen by pairs.
#include "ownership.metal"
#include "status.metal"

// report_pair lowers status[0] to pair i if its expert is neither -1 nor an existing one, and
// status[1] if its expert does not fit into 32 bits.
template <typename T>
static inline void report_pair(device atomic_int* status, device const T* ids, constant pairs_params& p, int i) {
  const T expert = ids[i * p.stride];
  if (expert != T(-1) && owned<T>(expert, p.first, p.experts) < 0) {
    report(status, i);
    if (T(int(expert)) != expert) {
      report(status + 1, i);
    }
  }
}

// explain_pair writes the expert of the reported pair: its low 32 bits to status[2], and its high
// ones to status[3].
template <typename T>
static inline void explain_pair(device atomic_int* status, device const T* ids, constant pairs_params& p) {
  int pair = atomic_load_explicit(status + 1, memory_order_relaxed);
  if (pair == status_clear) {
    pair = atomic_load_explicit(status, memory_order_relaxed);
  }
  if (pair == status_clear) {
    return;
  }
  const long expert = long(ids[pair * p.stride]);
  atomic_store_explicit(status + 2, int(uint(expert & 0xffffffffl)), memory_order_relaxed);
  atomic_store_explicit(status + 3, int(expert >> 32), memory_order_relaxed);
}

// pair_explain completes the status after all pairs have been checked, using one thread.
template <typename T>
kernel void pair_explain(device const T* ids [[buffer(0)]],
                         device atomic_int* status [[buffer(1)]],
                         constant pairs_params& p [[buffer(2)]]) {
  explain_pair<T>(status, ids, p);
}

template [[host_name("pair_explain_i32")]] [[kernel]] decltype(pair_explain<int>) pair_explain<int>;
template [[host_name("pair_explain_i64")]] [[kernel]] decltype(pair_explain<long>) pair_explain<long>;
