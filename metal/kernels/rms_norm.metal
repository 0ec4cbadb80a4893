// Rows divided by the root of their mean square: y = x · r · gain, r = 1/√(mean(x²) + eps).
#include "norm.metal"

template <typename T>
kernel void rms_norm(device const T* x [[buffer(0)]], device const T* gain [[buffer(1)]], device T* y [[buffer(2)]],
                     device const int* zones [[buffer(3)]], constant Norm& p [[buffer(4)]],
                     uint row [[threadgroup_position_in_grid]], uint tid [[thread_position_in_threadgroup]],
                     uint threads [[threads_per_threadgroup]]) {
  threadgroup float room[32];
  int kind = row_kind(zones, p.experts, p.align, p.per, int(row));
  if (kind == ROW_PAST) {
    return;
  }
  Team t = team_of(tid, threads);
  if (kind == ROW_GAP) {
    zero_row(t, y, int(row), p.n);
    return;
  }
  device const T* from = x + int(row) * p.n;
  float r = inverse_of(t, from, p.n, 0.0f, p.eps, room);
  for (int i = t.tid; i < p.n; i += t.threads) {
    y[int(row) * p.n + i] = T(float(from[i]) * r * float(gain[i]));
  }
}

// dx = r · (ct·gain - x · r² · mean(ct·gain·x)).
template <typename T>
kernel void rms_norm_grad(device const T* x [[buffer(0)]], device const T* gain [[buffer(1)]],
                          device const T* ct [[buffer(2)]], device T* dx [[buffer(3)]],
                          device const int* zones [[buffer(4)]], constant Norm& p [[buffer(5)]],
                          uint row [[threadgroup_position_in_grid]], uint tid [[thread_position_in_threadgroup]],
                          uint threads [[threads_per_threadgroup]]) {
  threadgroup float room[32];
  int kind = row_kind(zones, p.experts, p.align, p.per, int(row));
  if (kind == ROW_PAST) {
    return;
  }
  Team t = team_of(tid, threads);
  if (kind == ROW_GAP) {
    zero_row(t, dx, int(row), p.n);
    return;
  }
  int at = int(row) * p.n;
  float r = inverse_of(t, x + at, p.n, 0.0f, p.eps, room);
  float sum = 0.0f;
  for (int i = t.tid; i < p.n; i += t.threads) {
    sum += float(ct[at + i]) * float(gain[i]) * float(x[at + i]);
  }
  float mean = team_sum(t, sum, room) / float(p.n);
  for (int i = t.tid; i < p.n; i += t.threads) {
    dx[at + i] = T(r * (float(ct[at + i]) * float(gain[i]) - float(x[at + i]) * r * r * mean));
  }
}

// rms_inverses writes r of each row; 0 of rows that are not in use.
template <typename T>
kernel void rms_inverses(device const T* x [[buffer(0)]], device float* inverse [[buffer(1)]],
                         device const int* zones [[buffer(2)]], constant Norm& p [[buffer(3)]],
                         uint row [[threadgroup_position_in_grid]], uint tid [[thread_position_in_threadgroup]],
                         uint threads [[threads_per_threadgroup]]) {
  threadgroup float room[32];
  Team t = team_of(tid, threads);
  float r = 0.0f;
  if (row_kind(zones, p.experts, p.align, p.per, int(row)) == ROW_IN_USE) {
    r = inverse_of(t, x + int(row) * p.n, p.n, 0.0f, p.eps, room);
  }
  if (t.tid == 0) {
    inverse[row] = r;
  }
}

// rms_gain sums ct · x · r over the rows of each chunk.
template <typename T>
kernel void rms_gain(device const T* x [[buffer(0)]], device const T* ct [[buffer(1)]],
                     device const float* inverse [[buffer(2)]], device float* partial [[buffer(3)]],
                     device const int* zones [[buffer(4)]], constant NormColumns& p [[buffer(5)]],
                     uint2 place [[threadgroup_position_in_grid]], uint2 tid [[thread_position_in_threadgroup]]) {
  threadgroup float room[32 * COLUMN_TEAMS];
  int column = int(place.x) * 32 + int(tid.x);
  int end = min(p.rows, (int(place.y) + 1) * COLUMN_ROWS);
  float sum = 0.0f;
  if (column < p.n) {
    for (int row = int(place.y) * COLUMN_ROWS + int(tid.y); row < end; row += COLUMN_TEAMS) {
      if (row_kind(zones, p.experts, p.align, p.per, row) == ROW_IN_USE) {
        sum += float(ct[row * p.n + column]) * (float(x[row * p.n + column]) * inverse[row]);
      }
    }
  }
  sum = column_total(sum, tid, room);
  if (tid.y == 0 && column < p.n) {
    partial[int(place.y) * p.n + column] = sum;
  }
}

#define INSTANTIATE(suffix, T)                                                                                      \
  template [[host_name("rms_norm_" #suffix)]] [[kernel]] decltype(rms_norm<T>) rms_norm<T>;                         \
  template [[host_name("rms_norm_grad_" #suffix)]] [[kernel]] decltype(rms_norm_grad<T>) rms_norm_grad<T>;          \
  template [[host_name("rms_inverses_" #suffix)]] [[kernel]] decltype(rms_inverses<T>) rms_inverses<T>;             \
  template [[host_name("rms_gain_" #suffix)]] [[kernel]] decltype(rms_gain<T>) rms_gain<T>;
INSTANTIATE(f32, float)
INSTANTIATE(f16, half)
INSTANTIATE(bf16, bfloat)
