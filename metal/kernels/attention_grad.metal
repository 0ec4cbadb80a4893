// The gradient of attention, with p_ij = exp(s_ij - lse_i):
// dv_j = Σ_i p_ij dout_i, ds_ij = scale · p_ij (dout_i·v_j - delta_i), dq_i = Σ_j ds_ij k_j,
// dk_j = Σ_i ds_ij q_i, delta_i = dout_i·out_i - dlse_i. Scores are computed again.
#include "attention_tile.metal"

struct Delta {
  int rows, s, n, d;
};

// attention_delta writes delta[B,N,S], a simdgroup per row.
template <typename T>
kernel void attention_delta(device const T* out [[buffer(0)]], device const T* dout [[buffer(1)]],
                            device const float* dlse [[buffer(2)]], device float* delta [[buffer(3)]],
                            constant Delta& p [[buffer(4)]], uint row [[threadgroup_position_in_grid]],
                            uint lane [[thread_index_in_threadgroup]]) {
  int r = int(row); // of [B,N,S]
  int t = r % p.s, head = r / p.s % p.n, b = r / p.s / p.n;
  int at = ((b * p.s + t) * p.n + head) * p.d;
  float sum = 0.0f;
  for (int i = int(lane); i < p.d; i += 32) {
    sum += float(out[at + i]) * float(dout[at + i]);
  }
  sum = simd_sum(sum);
  if (lane == 0) {
    delta[r] = sum - dlse[r];
  }
}

// A threadgroup does ROWS rows of a head, 8 per simdgroup, over COLUMNS rows of another at a
// time: with KEYS its rows are those of keys and values, and the others those of all
// heads of queries that use them, in order; without, the other way round. room holds the
// rows of both heads, (ROWS + COLUMNS)·D each, and p and ds, ROWS·COLUMNS each.
template <typename T, int ROWS, int COLUMNS, bool KEYS>
kernel void attention_grad(device const T* q [[buffer(0)]], device const T* k [[buffer(1)]],
                           device const T* v [[buffer(2)]], device const T* dout [[buffer(3)]],
                           device const float* lse [[buffer(4)]], device const float* delta [[buffer(5)]],
                           device T* first_grad [[buffer(6)]], device T* second_grad [[buffer(7)]],
                           constant Attention& p [[buffer(8)]], threadgroup float* room [[threadgroup(0)]],
                           uint3 place [[threadgroup_position_in_grid]], uint id [[thread_index_in_threadgroup]]) {
  constexpr int threads = ROWS / 8 * 32;
  int tid = int(id), lane = tid % 32, team = tid / 32;
  int wide = EIGHTS * 8;
  int first = int(place.x) * ROWS, head = int(place.y), b = int(place.z);
  int own_heads = KEYS ? p.m : p.n, other_heads = KEYS ? p.n : p.m;
  int own = head_start(b, head, p.s, own_heads, p.d);
  int own_apart = own_heads * p.d, other_apart = other_heads * p.d;

  threadgroup float* own_a = room;
  threadgroup float* own_b = own_a + ROWS * wide;
  threadgroup float* other_a = own_b + ROWS * wide;
  threadgroup float* other_b = other_a + COLUMNS * wide;
  threadgroup float* weights = other_b + COLUMNS * wide + team * 8 * COLUMNS;
  threadgroup float* slopes = other_b + COLUMNS * wide + ROWS * COLUMNS + team * 8 * COLUMNS;
  stage(own_a, (KEYS ? k : q) + own, first, ROWS, p.s, own_apart, p.d, tid, threads);
  stage(own_b, (KEYS ? v : dout) + own, first, ROWS, p.s, own_apart, p.d, tid, threads);

  simdgroup_float8x8 sum_a[MOST_EIGHTS], sum_b[MOST_EIGHTS];
  EACH_EIGHT(e) {
    sum_a[e] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    sum_b[e] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  }
  int heads = KEYS ? p.group : 1;
  for (int h = 0; h < heads; h++) {
    int other = KEYS ? head * p.group + h - p.off : (p.off + head) / p.group;
    if (KEYS && (other < 0 || other >= p.n)) {
      continue; // another rank has this head of queries
    }
    int start = head_start(b, other, p.s, other_heads, p.d);
    int begin = 0, end = p.s;
    if (p.causal != 0 && KEYS) {
      begin = first / COLUMNS * COLUMNS; // queries before the keys do not see them
    }
    if (p.causal != 0 && !KEYS) {
      end = min(p.s, first + ROWS);
    }
    int row0 = (b * p.n + (KEYS ? other : head)) * p.s; // of lse and delta
    for (int at = begin; at < end; at += COLUMNS) {
      threadgroup_barrier(mem_flags::mem_threadgroup);
      stage(other_a, (KEYS ? q : k) + start, at, COLUMNS, p.s, other_apart, p.d, tid, threads);
      stage(other_b, (KEYS ? dout : v) + start, at, COLUMNS, p.s, other_apart, p.d, tid, threads);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      products(weights, own_a + team * 8 * wide, other_a, COLUMNS);
      products(slopes, own_b + team * 8 * wide, other_b, COLUMNS);
      simdgroup_barrier(mem_flags::mem_threadgroup);
      for (int i = lane; i < 8 * COLUMNS; i += 32) {
        int mine = first + team * 8 + i / COLUMNS, theirs = at + i % COLUMNS;
        int query = KEYS ? theirs : mine, key = KEYS ? mine : theirs;
        float weight = 0.0f, slope = 0.0f;
        if (query < p.s && key < p.s && (p.causal == 0 || key <= query)) {
          weight = precise::exp(p.scale * weights[i] - lse[row0 + query]);
          slope = p.scale * weight * (slopes[i] - delta[row0 + query]);
        }
        weights[i] = weight;
        slopes[i] = slope;
      }
      simdgroup_barrier(mem_flags::mem_threadgroup);
      accumulate(sum_a, slopes, other_a, COLUMNS);
      if (KEYS) {
        accumulate(sum_b, weights, other_b, COLUMNS);
      }
    }
  }

  // The own rows are this simdgroup's: results take their place.
  threadgroup float* mine = own_a + team * 8 * wide;
  simdgroup_barrier(mem_flags::mem_threadgroup);
  EACH_EIGHT(e) {
    simdgroup_store(sum_a[e], mine + e * 8, wide);
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  unstage(first_grad + own, mine, first + team * 8, p.s, own_apart, p.d, lane);
  if (KEYS) {
    mine = own_b + team * 8 * wide;
    EACH_EIGHT(e) {
      simdgroup_store(sum_b[e], mine + e * 8, wide);
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    unstage(second_grad + own, mine, first + team * 8, p.s, own_apart, p.d, lane);
  }
}

#define INSTANTIATE(suffix, T)                                                                                       \
  template [[host_name("attention_delta_" #suffix)]] [[kernel]] decltype(attention_delta<T>) attention_delta<T>;     \
  template [[host_name("attention_grad_q_32_" #suffix)]] [[kernel]]                                                  \
  decltype(attention_grad<T, 32, 16, false>) attention_grad<T, 32, 16, false>;                                       \
  template [[host_name("attention_grad_q_16_" #suffix)]] [[kernel]]                                                  \
  decltype(attention_grad<T, 16, 8, false>) attention_grad<T, 16, 8, false>;                                         \
  template [[host_name("attention_grad_kv_32_" #suffix)]] [[kernel]]                                                 \
  decltype(attention_grad<T, 32, 16, true>) attention_grad<T, 32, 16, true>;                                         \
  template [[host_name("attention_grad_kv_16_" #suffix)]] [[kernel]]                                                 \
  decltype(attention_grad<T, 16, 8, true>) attention_grad<T, 16, 8, true>;
INSTANTIATE(f32, float)
INSTANTIATE(f16, half)
INSTANTIATE(bf16, bfloat)
