// The loss of each token, log Σ exp(logits) - logits[label], and its gradient. A token with
// label -1 has neither.
#include "rows.metal"

struct Loss {
  int rows, n;
  int experts, align, per;
};

// exponentials returns the largest logit of a row, and the sum of exp(logit - largest).
template <typename T>
static inline float exponentials(Team t, device const T* x, int n, threadgroup float* room, thread float& top) {
  top = -INFINITY;
  for (int i = t.tid; i < n; i += t.threads) {
    top = larger(top, float(x[i]));
  }
  top = team_max(t, top, room);
  float sum = 0.0f;
  for (int i = t.tid; i < n; i += t.threads) {
    sum += precise::exp(float(x[i]) - top);
  }
  return team_sum(t, sum, room);
}

template <typename T>
kernel void cross_entropy(device const T* logits [[buffer(0)]], device const int* labels [[buffer(1)]],
                          device float* loss [[buffer(2)]], device const int* zones [[buffer(3)]],
                          constant Loss& p [[buffer(4)]], uint row [[threadgroup_position_in_grid]],
                          uint tid [[thread_position_in_threadgroup]], uint threads [[threads_per_threadgroup]]) {
  threadgroup float room[32];
  int kind = row_kind(zones, p.experts, p.align, p.per, int(row));
  if (kind == ROW_PAST) {
    return;
  }
  Team t = team_of(tid, threads);
  int label = kind == ROW_IN_USE ? labels[row] : -1;
  float l = 0.0f;
  if (label >= 0 && label < p.n) { // others are reported by the check
    device const T* x = logits + int(row) * p.n;
    float top;
    float sum = exponentials(t, x, p.n, room, top);
    l = precise::log(sum) - (float(x[label]) - top);
  }
  if (t.tid == 0) {
    loss[row] = l;
  }
}

// dlogits = (softmax(logits) - onehot(label)) · ct.
template <typename T>
kernel void cross_entropy_grad(device const T* logits [[buffer(0)]], device const int* labels [[buffer(1)]],
                               device const float* ct [[buffer(2)]], device T* grad [[buffer(3)]],
                               device const int* zones [[buffer(4)]], constant Loss& p [[buffer(5)]],
                               uint row [[threadgroup_position_in_grid]],
                               uint tid [[thread_position_in_threadgroup]],
                               uint threads [[threads_per_threadgroup]]) {
  threadgroup float room[32];
  int kind = row_kind(zones, p.experts, p.align, p.per, int(row));
  if (kind == ROW_PAST) {
    return;
  }
  Team t = team_of(tid, threads);
  int at = int(row) * p.n;
  int label = kind == ROW_IN_USE ? labels[row] : -1;
  if (label < 0 || label >= p.n) {
    for (int i = t.tid; i < p.n; i += t.threads) {
      grad[at + i] = T(0.0f);
    }
    return;
  }
  float top;
  float sum = exponentials(t, logits + at, p.n, room, top);
  float c = ct[row];
  for (int i = t.tid; i < p.n; i += t.threads) {
    float y = precise::exp(float(logits[at + i]) - top) / sum;
    grad[at + i] = T((i == label ? y - 1.0f : y) * c);
  }
}

#define INSTANTIATE(suffix, T)                                                                                     \
  template [[host_name("cross_entropy_" #suffix)]] [[kernel]] decltype(cross_entropy<T>) cross_entropy<T>;         \
  template [[host_name("cross_entropy_grad_" #suffix)]] [[kernel]] decltype(cross_entropy_grad<T>) cross_entropy_grad<T>;
INSTANTIATE(f32, float)
INSTANTIATE(f16, half)
INSTANTIATE(bf16, bfloat)
