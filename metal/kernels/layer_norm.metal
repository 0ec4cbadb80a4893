// Rows with mean 0 and variance 1: y = (x - mean) · r · gain + bias, r = 1/√(variance + eps).
#include "norm.metal"

template <typename T>
kernel void layer_norm(device const T* x [[buffer(0)]], device const T* gain [[buffer(1)]],
                       device const T* bias [[buffer(2)]], device T* y [[buffer(3)]],
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
    zero_row(t, y, int(row), p.n);
    return;
  }
  device const T* from = x + int(row) * p.n;
  float mean = mean_of(t, from, p.n, room);
  float r = inverse_of(t, from, p.n, mean, p.eps, room);
  for (int i = t.tid; i < p.n; i += t.threads) {
    y[int(row) * p.n + i] = T((float(from[i]) - mean) * r * float(gain[i]) + float(bias[i]));
  }
}

// dx = r · (c - mean(c) - z · mean(c·z)), c = ct · gain, z = (x - mean) · r.
template <typename T>
kernel void layer_norm_grad(device const T* x [[buffer(0)]], device const T* gain [[buffer(1)]],
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
  float mean = mean_of(t, x + at, p.n, room);
  float r = inverse_of(t, x + at, p.n, mean, p.eps, room);
  float sum = 0.0f, turned = 0.0f;
  for (int i = t.tid; i < p.n; i += t.threads) {
    float c = float(ct[at + i]) * float(gain[i]);
    sum += c;
    turned += c * ((float(x[at + i]) - mean) * r);
  }
  sum = team_sum(t, sum, room) / float(p.n);
  turned = team_sum(t, turned, room) / float(p.n);
  for (int i = t.tid; i < p.n; i += t.threads) {
    float c = float(ct[at + i]) * float(gain[i]);
    dx[at + i] = T(r * (c - sum - (float(x[at + i]) - mean) * r * turned));
  }
}

// layer_moments writes mean and r of each row; zeros of rows that are not in use.
template <typename T>
kernel void layer_moments(device const T* x [[buffer(0)]], device float* moments [[buffer(1)]],
                          device const int* zones [[buffer(2)]], constant Norm& p [[buffer(3)]],
                          uint row [[threadgroup_position_in_grid]], uint tid [[thread_position_in_threadgroup]],
                          uint threads [[threads_per_threadgroup]]) {
  threadgroup float room[32];
  Team t = team_of(tid, threads);
  float mean = 0.0f, r = 0.0f;
  if (row_kind(zones, p.experts, p.align, p.per, int(row)) == ROW_IN_USE) {
    mean = mean_of(t, x + int(row) * p.n, p.n, room);
    r = inverse_of(t, x + int(row) * p.n, p.n, mean, p.eps, room);
  }
  if (t.tid == 0) {
    moments[2 * row] = mean;
    moments[2 * row + 1] = r;
  }
}

// layer_gain sums ct · (x - mean) · r over the rows of each chunk, and layer_bias ct.
template <typename T, bool BIAS>
kernel void layer_gain(device const T* x [[buffer(0)]], device const T* ct [[buffer(1)]],
                       device const float* moments [[buffer(2)]], device float* partial [[buffer(3)]],
                       device const int* zones [[buffer(4)]], constant NormColumns& p [[buffer(5)]],
                       uint2 place [[threadgroup_position_in_grid]], uint2 tid [[thread_position_in_threadgroup]]) {
  threadgroup float room[32 * COLUMN_TEAMS];
  int column = int(place.x) * 32 + int(tid.x);
  int end = min(p.rows, (int(place.y) + 1) * COLUMN_ROWS);
  float sum = 0.0f;
  if (column < p.n) {
    for (int row = int(place.y) * COLUMN_ROWS + int(tid.y); row < end; row += COLUMN_TEAMS) {
      if (row_kind(zones, p.experts, p.align, p.per, row) != ROW_IN_USE) {
        continue;
      }
      float c = float(ct[row * p.n + column]);
      sum += BIAS ? c : c * ((float(x[row * p.n + column]) - moments[2 * row]) * moments[2 * row + 1]);
    }
  }
  sum = column_total(sum, tid, room);
  if (tid.y == 0 && column < p.n) {
    partial[int(place.y) * p.n + column] = sum;
  }
}

#define INSTANTIATE(suffix, T)                                                                                        \
  template [[host_name("layer_norm_" #suffix)]] [[kernel]] decltype(layer_norm<T>) layer_norm<T>;                     \
  template [[host_name("layer_norm_grad_" #suffix)]] [[kernel]] decltype(layer_norm_grad<T>) layer_norm_grad<T>;      \
  template [[host_name("layer_moments_" #suffix)]] [[kernel]] decltype(layer_moments<T>) layer_moments<T>;            \
  template [[host_name("layer_gain_" #suffix)]] [[kernel]] decltype(layer_gain<T, false>) layer_gain<T, false>;       \
  template [[host_name("layer_bias_" #suffix)]] [[kernel]] decltype(layer_gain<T, true>) layer_gain<T, true>;
INSTANTIATE(f32, float)
INSTANTIATE(f16, half)
INSTANTIATE(bf16, bfloat)
