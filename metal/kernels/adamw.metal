// One update by AdamW: see kernel.AdamWStep of the host, which computes in f64.
#include "functions.metal"

// adamw_correction returns 1 - bˢᵗᵉᵖ, given log b in two parts. Without decay it is 1.
static inline float adamw_correction(float2 log_b, int step) {
  if (!isfinite(log_b.x)) {
    return 1.0f;
  }
  float2 t = pair_scale(log_b, float(step));
  float y = exp_less_1(t.x);
  return -(y + (1.0f + y) * t.y);
}

// adamw_moment returns b·x + y, rounded nearly once.
static inline float adamw_moment(float2 b, float x, float2 y) {
  float2 p = pair_scale(b, x);
  float2 s = pair_join(p, y);
  return s.x + s.y;
}

// adamw_first and adamw_second return the moments after the update. Values that two parts cannot
// represent, such as an infinity, are stored in one.
static inline float adamw_first(float m, float g, float scale, float2 b, float2 a) {
  float2 grad = pair_product(scale, g);
  float2 y = pair_scale(a, grad.x);
  float once = adamw_moment(b, m, float2(y.x, y.y + a.x * grad.y));
  return isfinite(once) ? once : b.x * m + a.x * grad.x;
}

static inline float adamw_second(float v, float g, float scale, float2 b, float2 a) {
  float2 grad = pair_product(scale, g);
  float2 y = pair_scale(a, grad.x);
  y = float2(y.x, y.y + a.x * grad.y);
  float2 z = pair_scale(y, grad.x);
  float once = adamw_moment(b, v, float2(z.x, z.y + y.x * grad.y));
  return isfinite(once) ? once : b.x * v + a.x * grad.x * grad.x;
}

// adamw_parameter returns the parameter after the update, given the moments.
static inline float adamw_parameter(float p, float m, float v, float c1, float c2, float lr, float eps, float decay) {
  float change = (m / c1) / (precise::sqrt(v / c2) + eps) + decay * p;
  return fma(-lr, change, p);
}
