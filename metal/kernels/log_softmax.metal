// The logarithm of softmax along an axis, y = x - log Σ exp(x), its gradient, and log Σ exp(x)
// itself.
#include "rows.metal"

// log_sum returns top, the largest x of a line, and log Σ exp(x - top). Their sum is -inf for an
// empty line and for a line of only -inf; with an inf it is inf; with a NaN it is NaN.
template <typename T>
static inline float2 log_sum(Team t, device const T* x, int at, int n, int inner, threadgroup float* room) {
  float top = -INFINITY;
  for (int i = t.tid; i < n; i += t.threads) {
    top = larger(top, float(x[at + i * inner]));
  }
  top = team_max(t, top, room);
  if (isinf(top) || isnan(top)) { // the same for all threads
    return float2(top, 0.0f);
  }
  float sum = 0.0f;
  for (int i = t.tid; i < n; i += t.threads) {
    sum += precise::exp(float(x[at + i * inner]) - top);
  }
  return float2(top, precise::log(team_sum(t, sum, room)));
}

template <typename T>
kernel void log_softmax(device const T* x [[buffer(0)]], device T* y [[buffer(1)]], device const int* zones [[buffer(2)]],
                        constant Lines& p [[buffer(3)]], uint line [[threadgroup_position_in_grid]],
                        uint tid [[thread_position_in_threadgroup]], uint threads [[threads_per_threadgroup]]) {
  threadgroup float room[32];
  int kind = row_kind(zones, p.experts, p.align, p.per, int(line));
  if (kind == ROW_PAST) {
    return;
  }
  Team t = team_of(tid, threads);
  int at = line_start(int(line), p.n, p.inner);
  if (kind == ROW_GAP) {
    for (int i = t.tid; i < p.n; i += t.threads) {
      y[at + i * p.inner] = T(0.0f);
    }
    return;
  }
  float2 shift = log_sum(t, x, at, p.n, p.inner, room);
  if (isinf(shift.x)) { // inf - inf, as in a line of only -inf
    shift.x = NAN;
  }
  for (int i = t.tid; i < p.n; i += t.threads) {
    y[at + i * p.inner] = T((float(x[at + i * p.inner]) - shift.x) - shift.y); // a large top would swallow the logarithm
  }
}

// dx = ct - exp(y) · Σ ct.
template <typename T>
kernel void log_softmax_grad(device const T* y [[buffer(0)]], device const T* ct [[buffer(1)]],
                             device T* dx [[buffer(2)]], device const int* zones [[buffer(3)]],
                             constant Lines& p [[buffer(4)]], uint line [[threadgroup_position_in_grid]],
                             uint tid [[thread_position_in_threadgroup]], uint threads [[threads_per_threadgroup]]) {
  threadgroup float room[32];
  int kind = row_kind(zones, p.experts, p.align, p.per, int(line));
  if (kind == ROW_PAST) {
    return;
  }
  Team t = team_of(tid, threads);
  int at = line_start(int(line), p.n, p.inner);
  if (kind == ROW_GAP) {
    for (int i = t.tid; i < p.n; i += t.threads) {
      dx[at + i * p.inner] = T(0.0f);
    }
    return;
  }
  float sum = 0.0f;
  for (int i = t.tid; i < p.n; i += t.threads) {
    sum += float(ct[at + i * p.inner]);
  }
  sum = team_sum(t, sum, room);
  for (int i = t.tid; i < p.n; i += t.threads) {
    int k = at + i * p.inner;
    dx[k] = T(float(ct[k]) - precise::exp(float(y[k])) * sum);
  }
}

template <typename T>
kernel void logsumexp(device const T* x [[buffer(0)]], device T* y [[buffer(1)]], device const int* zones [[buffer(2)]],
                      constant Lines& p [[buffer(3)]], uint line [[threadgroup_position_in_grid]],
                      uint tid [[thread_position_in_threadgroup]], uint threads [[threads_per_threadgroup]]) {
  threadgroup float room[32];
  int kind = row_kind(zones, p.experts, p.align, p.per, int(line));
  if (kind == ROW_PAST) {
    return;
  }
  Team t = team_of(tid, threads);
  float sum = 0.0f;
  if (kind == ROW_IN_USE) {
    const float2 parts = log_sum(t, x, line_start(int(line), p.n, p.inner), p.n, p.inner, room);
    sum = parts.x + parts.y;
  }
  if (t.tid == 0) {
    y[line] = T(sum);
  }
}

#define INSTANTIATE(suffix, T)                                                                                       \
  template [[host_name("log_softmax_" #suffix)]] [[kernel]] decltype(log_softmax<T>) log_softmax<T>;                 \
  template [[host_name("log_softmax_grad_" #suffix)]] [[kernel]] decltype(log_softmax_grad<T>) log_softmax_grad<T>;  \
  template [[host_name("logsumexp_" #suffix)]] [[kernel]] decltype(logsumexp<T>) logsumexp<T>;
INSTANTIATE(f32, float)
INSTANTIATE(f16, half)
INSTANTIATE(bf16, bfloat)
