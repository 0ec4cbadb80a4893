// The gradient of attention, with p_ij = exp(s_ij - lse_i):
// dv_j = Σ_i p_ij dout_i, ds_ij = scale · cap'_ij · p_ij (dout_i·v_j - delta_i), dq_i = Σ_j ds_ij k_j,
// dk_j = Σ_i ds_ij q_i, delta_i = dout_i·out_i - dlse_i. Scores are computed again. Where lse is -Inf a
// query has no keys, and its powers are 0.
#include "attention_tile.metal"

struct Delta {
  int rows, s, n, v;
};

// attention_delta writes delta[B,N,S], a simdgroup per row.
template <typename T>
kernel void attention_delta(device const T* out [[buffer(0)]], device const T* dout [[buffer(1)]],
                            device const float* dlse [[buffer(2)]], device float* delta [[buffer(3)]],
                            constant Delta& p [[buffer(4)]], uint row [[threadgroup_position_in_grid]],
                            uint lane [[thread_index_in_threadgroup]]) {
  int r = int(row); // of [B,N,S]
  int t = r % p.s, head = r / p.s % p.n, b = r / p.s / p.n;
  int at = ((b * p.s + t) * p.n + head) * p.v;
  float sum = 0.0f;
  for (int i = int(lane); i < p.v; i += 32) {
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
// rows of both heads, (ROWS + COLUMNS)·wide each, and p and ds, ROWS·COLUMNS each.
template <typename T, int ROWS, int COLUMNS, bool KEYS>
kernel void attention_grad(device const T* q [[buffer(0)]], device const T* k [[buffer(1)]],
                           device const T* v [[buffer(2)]], device const T* dout [[buffer(3)]],
                           device const float* lse [[buffer(4)]], device const float* delta [[buffer(5)]],
                           device T* first_grad [[buffer(6)]], device T* second_grad [[buffer(7)]],
                           device const int* lengths [[buffer(8)]], device const int* starts [[buffer(9)]],
                           device const uchar* bias [[buffer(10)]], constant Attention& p [[buffer(11)]],
                           constant Terms& t [[buffer(12)]], threadgroup float* room [[threadgroup(0)]],
                           uint3 place [[threadgroup_position_in_grid]], uint id [[thread_index_in_threadgroup]]) {
  constexpr int threads = ROWS / 8 * 32;
  int tid = int(id), lane = tid % 32, team = tid / 32;
  int wide = EIGHTS * 8;
  int first = int(place.x) * ROWS, head = int(place.y), b = int(place.z);
  Sight sight = sight_of(p, t, lengths, starts, b);
  int position = sight.position;
  int own_heads = KEYS ? p.m : p.n, other_heads = KEYS ? p.n : p.m;
  int own_rows = KEYS ? t.r : p.s, other_rows = KEYS ? p.s : t.r;
  int own_read = KEYS ? sight.length : p.s, other_read = KEYS ? p.s : sight.length; // what may be read of them
  int own_first = head_start(b, head, own_rows, own_heads, p.d), own_second = head_start(b, head, own_rows, own_heads, t.v);

  threadgroup float* own_a = room;
  threadgroup float* own_b = own_a + ROWS * wide;
  threadgroup float* other_a = own_b + ROWS * wide;
  threadgroup float* other_b = other_a + COLUMNS * wide;
  threadgroup float* weights = other_b + COLUMNS * wide + team * 8 * COLUMNS;
  threadgroup float* slopes = other_b + COLUMNS * wide + ROWS * COLUMNS + team * 8 * COLUMNS;
  stage(own_a, (KEYS ? k : q) + own_first, first, ROWS, own_read, own_heads * p.d, p.d, tid, threads);
  stage(own_b, (KEYS ? v : dout) + own_second, first, ROWS, own_read, own_heads * t.v, t.v, tid, threads);

  simdgroup_float8x8 sum_a[MOST_EIGHTS], sum_b[MOST_EIGHTS];
  EACH_EIGHT(e) {
    sum_a[e] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    sum_b[e] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  }
  // Other rows that no own row has to do with are left out.
  int begin = 0, end = other_read;
  if (KEYS) {
    if (p.causal != 0) {
      begin = max(first - position, 0) / COLUMNS * COLUMNS;
    }
    if (t.window > 0) {
      end = min(end, first + ROWS - position + t.window);
    }
  } else {
    if (p.causal != 0) {
      end = min(end, position + min(p.s, first + ROWS));
    }
    if (t.window > 0) {
      begin = max(position + first + 1 - t.window, 0) / COLUMNS * COLUMNS;
    }
  }
  int heads = KEYS ? p.group : 1;
  for (int h = 0; h < heads; h++) {
    int other = KEYS ? head * p.group + h - p.off : (p.off + head) / p.group;
    if (KEYS && (other < 0 || other >= p.n)) {
      continue; // another rank has this head of queries
    }
    int start_a = head_start(b, other, other_rows, other_heads, p.d), start_b = head_start(b, other, other_rows, other_heads, t.v);
    int queries = KEYS ? other : head;     // the head of queries
    int row0 = (b * p.n + queries) * p.s; // of lse and delta
    for (int at = begin; at < end; at += COLUMNS) {
      threadgroup_barrier(mem_flags::mem_threadgroup);
      stage(other_a, (KEYS ? q : k) + start_a, at, COLUMNS, other_read, other_heads * p.d, p.d, tid, threads);
      stage(other_b, (KEYS ? dout : v) + start_b, at, COLUMNS, other_read, other_heads * t.v, t.v, tid, threads);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      products(weights, own_a + team * 8 * wide, other_a, COLUMNS);
      products(slopes, own_b + team * 8 * wide, other_b, COLUMNS);
      simdgroup_barrier(mem_flags::mem_threadgroup);
      for (int i = lane; i < 8 * COLUMNS; i += 32) {
        int mine = first + team * 8 + i / COLUMNS, theirs = at + i % COLUMNS;
        int query = KEYS ? theirs : mine, key = KEYS ? mine : theirs;
        float weight = 0.0f, slope = 0.0f;
        if (attends(p, t, sight, query, key) && lse[row0 + query] != -INFINITY) {
          float score = capped(t, p.scale * weights[i]);
          weight = precise::exp(biased(t, score, bias, b, queries, query, key) - lse[row0 + query]);
          slope = p.scale * weight * (slopes[i] - delta[row0 + query]);
          if (t.cap != 0.0f) {
            slope *= 1.0f - (score / t.cap) * (score / t.cap);
          }
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
  threadgroup_barrier(mem_flags::mem_threadgroup); // where nothing was added, rows are being staged
  EACH_EIGHT(e) {
    simdgroup_store(sum_a[e], mine + e * 8, wide);
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  unstage(first_grad + own_first, mine, first + team * 8, own_rows, own_heads * p.d, p.d, lane);
  if (KEYS) {
    mine = own_b + team * 8 * wide;
    EACH_EIGHT(e) {
      simdgroup_store(sum_b[e], mine + e * 8, wide);
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    unstage(second_grad + own_second, mine, first + team * 8, own_rows, own_heads * t.v, t.v, lane);
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
