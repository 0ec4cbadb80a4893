// The router: scores of experts, and the best of them for each token.
#include "choose.metal"
#include "status.metal"

struct router_params {
  int tokens;
  int experts;
  int top_k;
  int score;       // 0 softmax, 1 sigmoid, 2 sqrt_softplus, 3 softmax of the chosen
  int groups;      // 0 for none
  int top_groups;
  int group_best;  // a group's value is its best expert, not the sum of the two best
  int bias;        // 0 none, 1 f32, 2 f16, 3 bf16
  int renormalize;
  float epsilon;
  float scale;
  int words;       // threadgroup memory of a simdgroup
};

// softplus_root returns √ln(1 + eˣ).
static inline float softplus_root(float x) {
  if (x < -17.0f) {
    return precise::exp(0.5f * x);  // ln(1 + y) is y, whose own exponent may be too small
  }
  const float y = precise::exp(-abs(x));
  const float u = 1.0f + y;
  // ln(1 + y), corrected for the rounding error of 1 + y (Goldberg 1991).
  const float log1p = u == 1.0f ? y : precise::log(u) * (y / (u - 1.0f));
  return precise::sqrt(max(x, 0.0f) + log1p);
}

static inline float bias_of(device const uchar* bias, int kind, int e) {
  switch (kind) {
    case 1: return ((device const float*)bias)[e];
    case 2: return float(((device const half*)bias)[e]);
    case 3: return float(((device const bfloat*)bias)[e]);
  }
  return 0.0f;
}

// group_value is the value of a group of experts.
static inline float group_value(threadgroup const float* value, int experts, bool best_only) {
  float best = -INFINITY;
  float next = -INFINITY;
  for (int e = 0; e < experts; e++) {
    const float x = value[e];
    if (x > best) {
      next = best;
      best = x;
    } else if (x > next) {
      next = x;
    }
  }
  return best_only || experts == 1 ? best : best + next;
}

// choose_numbers writes the k largest of n values whose keys are not chosen_key, the first among
// equals first. With NaNs, for which every comparison is false, the choice depends on the order of
// comparisons: then one lane does the host kernel's comparisons.
static inline void choose_numbers(threadgroup int* chosen, int k, threadgroup int* keys, threadgroup const float* value, int n, bool nan, uint lane) {
  if (!nan) {
    for (int i = 0; i < k; i++) {
      const int e = choose_largest(keys, n, lane);
      if (lane == 0) {
        chosen[i] = e;
      }
    }
  } else if (lane == 0) {
    int have = 0;
    for (int e = 0; e < n; e++) {
      const float x = value[e];
      if (keys[e] == chosen_key || (have == k && !(x > value[chosen[k - 1]]))) {
        continue;
      }
      have = min(have + 1, k);
      int at = have - 1;
      for (; at > 0 && x > value[chosen[at - 1]]; at--) {
        chosen[at] = chosen[at - 1];
      }
      chosen[at] = e;
    }
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
}

// number_or_nan_key is the key of a number; a NaN's key is any value but chosen_key.
static inline int number_or_nan_key(float x) { return isnan(x) ? 0 : number_key(x); }

// router serves one token per simdgroup. memory is, for each, value[experts], keys[experts],
// group[groups], group_keys[groups], chosen[max(top_k, top_groups)] and weight[top_k]. A logit that
// is NaN lowers status[0] to its place.
template <typename T>
kernel void router(device const T* logits [[buffer(0)]],
                   device const uchar* bias [[buffer(1)]],
                   device float* weights [[buffer(2)]],
                   device int* ids [[buffer(3)]],
                   device float* scores [[buffer(4)]],
                   device atomic_int* status [[buffer(5)]],
                   constant router_params& p [[buffer(6)]],
                   threadgroup float* memory [[threadgroup(0)]],
                   uint tg [[threadgroup_position_in_grid]],
                   uint simdgroups [[simdgroups_per_threadgroup]],
                   uint simdgroup [[simdgroup_index_in_threadgroup]],
                   uint lane [[thread_index_in_simdgroup]]) {
  const int token = int(tg * simdgroups + simdgroup);
  if (token >= p.tokens) {
    return;  // the whole simdgroup, and there is no barrier of the threadgroup
  }
  const int n = p.experts;
  threadgroup float* value = memory + int(simdgroup) * p.words;
  threadgroup int* keys = (threadgroup int*)(value + n);
  threadgroup float* group = value + 2 * n;
  threadgroup int* group_keys = (threadgroup int*)(group + p.groups);
  threadgroup int* chosen = group_keys + p.groups;
  threadgroup float* weight = (threadgroup float*)(chosen + max(p.top_k, p.top_groups));
  device const T* x = logits + token * n;
  device float* s = scores + token * n;

  float top = -INFINITY;
  for (int e = int(lane); e < n; e += 32) {
    const float l = float(x[e]);
    if (isnan(l)) {
      report(status, token * n + e);
    }
    top = max(top, l);
  }
  float total = 0.0f;
  if (p.score == 0 || p.score == 3) {
    top = simd_max(top);
    for (int e = int(lane); e < n; e += 32) {
      value[e] = precise::exp(float(x[e]) - top);
      total += value[e];
    }
    total = simd_sum(total);
  }
  bool nan = false;
  for (int e = int(lane); e < n; e += 32) {
    const float l = float(x[e]);
    float score;
    if (p.score == 1) {
      score = 1.0f / (1.0f + precise::exp(-l));
    } else if (p.score == 2) {
      score = softplus_root(l);
    } else {
      score = value[e] / total;
    }
    s[e] = score;
    const float v = (p.score == 3 ? l : score) + bias_of(bias, p.bias, e);
    value[e] = v;
    keys[e] = number_or_nan_key(v);
    nan = nan || isnan(v);
  }
  nan = simd_any(nan);
  simdgroup_barrier(mem_flags::mem_threadgroup);

  if (p.groups > 0) {
    const int each = n / p.groups;
    bool group_nan = false;
    for (int g = int(lane); g < p.groups; g += 32) {
      const float v = group_value(value + g * each, each, p.group_best != 0);
      group[g] = v;
      group_keys[g] = number_or_nan_key(v);
      group_nan = group_nan || isnan(v);
    }
    group_nan = simd_any(group_nan);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    choose_numbers(chosen, p.top_groups, group_keys, group, p.groups, group_nan, lane);
    for (int e = int(lane); e < n; e += 32) {
      bool use = false;
      for (int i = 0; i < p.top_groups; i++) {
        use = use || chosen[i] == e / each;
      }
      if (!use) {
        keys[e] = chosen_key;
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
  choose_numbers(chosen, p.top_k, keys, value, n, nan, lane);

  // The scores of all lanes, in device memory.
  simdgroup_barrier(mem_flags::mem_device);
  for (int k = int(lane); k < p.top_k; k += 32) {
    weight[k] = p.score == 3 ? float(x[chosen[k]]) : s[chosen[k]];
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  // If all scores underflow to 0 in their type, they are weighted by their logarithms, slope times
  // the logits.
  bool logits_weigh = p.score == 3;
  if (p.renormalize != 0 && p.epsilon == 0.0f && p.score != 3) {
    logits_weigh = true;
    for (int k = 0; k < p.top_k; k++) {
      logits_weigh = logits_weigh && weight[k] == 0.0f;
    }
  }
  const float slope = p.score == 2 ? 0.5f : 1.0f;
  float sum = 0.0f;
  top = -INFINITY;
  if (logits_weigh) {
    for (int k = 0; k < p.top_k; k++) {
      top = max(top, slope * float(x[chosen[k]]));
    }
    for (int k = 0; k < p.top_k; k++) {
      sum += precise::exp(slope * float(x[chosen[k]]) - top);
    }
  }
  float factor = p.scale;
  if (p.renormalize != 0) {
    float all = p.epsilon;
    for (int k = 0; k < p.top_k; k++) {
      all += logits_weigh ? precise::exp(slope * float(x[chosen[k]]) - top) / sum : weight[k];
    }
    factor /= all;
  }
  for (int k = int(lane); k < p.top_k; k += 32) {
    const float w = logits_weigh ? precise::exp(slope * float(x[chosen[k]]) - top) / sum : weight[k];
    weights[token * p.top_k + k] = w * factor;
    ids[token * p.top_k + k] = chosen[k];
  }
}

#define router_of(T, name) \
  template [[host_name(name)]] [[kernel]] decltype(router<T>) router<T>;

router_of(float, "router_f32")
router_of(half, "router_f16")
router_of(bfloat, "router_bf16")
