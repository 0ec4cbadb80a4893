// Functions of float that Metal lacks, or computes less accurately.
#include "exact.metal"

// exp_less_1 returns exp(x) - 1 within 10 ulp, after Kahan: the error of exp cancels
// with that of log.
static inline float exp_less_1(float x) {
  float u = precise::exp(x);
  if (u == 1.0f) {
    return x;
  }
  float d = u - 1.0f;
  if (d == -1.0f || !isfinite(u)) {
    return d;
  }
  return d * (x / precise::log(u));
}

// log_1_plus returns log(1 + x) likewise.
static inline float log_1_plus(float x) {
  float u = 1.0f + x;
  if (u == 1.0f) {
    return x;
  }
  if (!isfinite(u)) {
    return precise::log(u);
  }
  return precise::log(u) * (x / (u - 1.0f));
}

static inline float logistic(float x) {
  if (x >= 0.0f) {
    return 1.0f / (1.0f + precise::exp(-x));
  }
  float e = precise::exp(x);
  return e / (1.0f + e);
}

// erfc_positive returns 1 - erf(x) for x of at least 0 within 12 ulp. With t = 2/(2+x),
// log(erfc(x)·exp(x²)/t) is nearly a polynomial of degree 9 in t, fitted at Chebyshev points of 0
// <= x <= 10.3, after which the result is 0; the error is at most 7e-8.
static inline float erfc_positive(float x) {
  if (x > 10.3f) {
    return 0.0f;
  }
  float t = 2.0f / (2.0f + x);
  float p = 0.14730870723724365f;
  p = fma(p, t, -0.6937893629074097f);
  p = fma(p, t, 1.1872535943984985f);
  p = fma(p, t, -0.7368860840797424f);
  p = fma(p, t, -0.04667099192738533f);
  p = fma(p, t, -0.016582142561674118f);
  p = fma(p, t, 0.04066840559244156f);
  p = fma(p, t, 0.38537317514419556f);
  p = fma(p, t, 0.9987800121307373f);
  p = fma(p, t, -1.2654552459716797f);
  float square = x * x;
  return t * precise::exp(-square) * precise::exp(p - fma(x, x, -square));
}

static inline float erfc_of(float x) {
  if (x != x) {
    return x;
  }
  return x < 0.0f ? 2.0f - erfc_positive(-x) : erfc_positive(x);
}

// erf_of is a Taylor series near 0, where 1 - erfc would lose digits.
static inline float erf_of(float x) {
  float a = fabs(x);
  if (a >= 0.75f) {
    return copysign(1.0f - erfc_positive(a), x);
  }
  if (x != x) {
    return x;
  }
  float s = x * x;
  float p = -1.0f / 75600.0f;
  p = fma(p, s, 1.0f / 9360.0f);
  p = fma(p, s, -1.0f / 1320.0f);
  p = fma(p, s, 1.0f / 216.0f);
  p = fma(p, s, -1.0f / 42.0f);
  p = fma(p, s, 0.1f);
  p = fma(p, s, -1.0f / 3.0f);
  return fma(p * s, x, x) * 1.1283791670955126f;
}

// silu_slope returns the derivative of x·logistic(x), given s = logistic(x).
static inline float silu_slope(float x, float s) { return s * (1.0f + x * (1.0f - s)); }

static inline float gelu(float x) { return x * (0.5f * erfc_of(x * -0.7071067811865475f)); }

static inline float gelu_slope(float x) {
  return 0.5f * erfc_of(x * -0.7071067811865475f) + x * 0.3989422804014327f * precise::exp(-0.5f * x * x);
}

static inline float gelu_tanh(float x) {
  return x * logistic(1.5957691216057308f * (x + 0.044715f * x * x * x));
}

static inline float gelu_tanh_slope(float x) {
  float z = 1.5957691216057308f * (x + 0.044715f * x * x * x);
  float slope = 1.5957691216057308f * (1.0f + 0.134145f * x * x);
  return logistic(z) + x * logistic(z) * logistic(-z) * slope;
}
