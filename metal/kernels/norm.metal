// Moments of rows, shared by all norms.
#include "columns.metal"

struct Norm {
  int rows, n;
  int experts, align, per;
  float eps;
};

struct NormColumns {
  int rows, n, chunks;
  int experts, align, per;
  float eps;
};

// zero_row fills row `row` of y with zeros.
template <typename T>
static inline void zero_row(Team t, device T* y, int row, int n) {
  for (int i = t.tid; i < n; i += t.threads) {
    y[row * n + i] = T(0.0f);
  }
}

// mean_of returns the mean of a row.
template <typename T>
static inline float mean_of(Team t, device const T* x, int n, threadgroup float* room) {
  float sum = 0.0f;
  for (int i = t.tid; i < n; i += t.threads) {
    sum += float(x[i]);
  }
  return team_sum(t, sum, room) / float(n);
}

// inverse_of returns 1/√(mean((x - mean)²) + eps) of a row.
template <typename T>
static inline float inverse_of(Team t, device const T* x, int n, float mean, float eps, threadgroup float* room) {
  float sum = 0.0f;
  for (int i = t.tid; i < n; i += t.threads) {
    float d = float(x[i]) - mean;
    sum += d * d;
  }
  return 1.0f / precise::sqrt(team_sum(t, sum, room) / float(n) + eps);
}
