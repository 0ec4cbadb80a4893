// Softmax along an axis: y = exp(x - max) / Σ exp(x - max), and its gradient.
#include "rows.metal"

template <typename T>
kernel void softmax(device const T* x [[buffer(0)]], device T* y [[buffer(1)]], device const int* zones [[buffer(2)]],
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
  float top = -INFINITY;
  for (int i = t.tid; i < p.n; i += t.threads) {
    top = larger(top, float(x[at + i * p.inner]));
  }
  top = team_max(t, top, room);
  float sum = 0.0f;
  for (int i = t.tid; i < p.n; i += t.threads) {
    sum += precise::exp(float(x[at + i * p.inner]) - top);
  }
  sum = team_sum(t, sum, room);
  for (int i = t.tid; i < p.n; i += t.threads) {
    y[at + i * p.inner] = T(precise::exp(float(x[at + i * p.inner]) - top) / sum);
  }
}

// dx = y · (ct - Σ ct·y). Where one y is almost 1, the difference cancels. With element k the largest of y and
// h = ct - ct[k], it is h - Σ h·y - ct[k]·(Σ y - 1), whose terms do not cancel; Σ y - 1 is the rounding of y.
template <typename T>
kernel void softmax_grad(device const T* y [[buffer(0)]], device const T* ct [[buffer(1)]], device T* dx [[buffer(2)]],
                         device const int* zones [[buffer(3)]], constant Lines& p [[buffer(4)]],
                         uint line [[threadgroup_position_in_grid]], uint tid [[thread_position_in_threadgroup]],
                         uint threads [[threads_per_threadgroup]]) {
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
  float top = -INFINITY;
  for (int i = t.tid; i < p.n; i += t.threads) {
    top = larger(top, float(y[at + i * p.inner]));
  }
  top = team_max(t, top, room);
  float first = -INFINITY; // minus the index of the largest; the first if several are
  for (int i = t.tid; i < p.n; i += t.threads) {
    if (float(y[at + i * p.inner]) == top) {
      first = larger(first, -float(i));
    }
  }
  first = team_max(t, first, room);
  int largest = first == -INFINITY ? 0 : int(-first); // none is the largest of NaNs
  float of_largest = float(ct[at + largest * p.inner]);
  float sum = 0.0f, rest = 0.0f;
  for (int i = t.tid; i < p.n; i += t.threads) {
    if (i != largest) {
      float v = float(y[at + i * p.inner]);
      sum += (float(ct[at + i * p.inner]) - of_largest) * v;
      rest += v;
    }
  }
  sum = team_sum(t, sum, room);
  rest = team_sum(t, rest, room);
  sum += of_largest * ((top - 1.0f) + rest);
  for (int i = t.tid; i < p.n; i += t.threads) {
    int k = at + i * p.inner;
    dx[k] = T(float(y[k]) * ((float(ct[k]) - of_largest) - sum));
  }
}

#define INSTANTIATE(suffix, T)                                                                    \
  template [[host_name("softmax_" #suffix)]] [[kernel]] decltype(softmax<T>) softmax<T>;          \
  template [[host_name("softmax_grad_" #suffix)]] [[kernel]] decltype(softmax_grad<T>) softmax_grad<T>;
INSTANTIATE(f32, float)
INSTANTIATE(f16, half)
INSTANTIATE(bf16, bfloat)
