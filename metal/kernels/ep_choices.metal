// ep_choices: the expert that each pair of a rank chooses.
#include "pair_faults.metal"

// ep_choices writes the expert of every pair, -1 for none; for a nonexistent expert, which is a
// mistake, it writes -1, too.
template <typename T>
kernel void ep_choices(device const T* ids [[buffer(0)]],
                       device int* chosen [[buffer(1)]],
                       device atomic_int* status [[buffer(2)]],
                       constant pairs_params& p [[buffer(3)]],
                       uint at [[thread_position_in_grid]]) {
  const int i = int(at);
  if (i >= p.pairs) {
    return;
  }
  report_pair<T>(status, ids, p, i);
  chosen[i] = owned_pair<T>(ids, p, i);
}

template [[host_name("ep_choices_i32")]] [[kernel]] decltype(ep_choices<int>) ep_choices<int>;
template [[host_name("ep_choices_i64")]] [[kernel]] decltype(ep_choices<long>) ep_choices<long>;
