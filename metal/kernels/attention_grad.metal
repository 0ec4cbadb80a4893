// The gradient of attention, with p_ij = exp(s_ij - lse_i): dv_j = Σ_i p_ij dout_i, ds_ij = scale ·
// cap'_ij · p_ij (dout_i·v_j - delta_i), dq_i = Σ_j ds_ij k_j, dk_j = Σ_i ds_ij q_i, delta_i =
// dout_i·out_i - dlse_i. Scores are recomputed. Where lse is -Inf a query has no keys, and its powers
// are 0.
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

// A threadgroup has ATTENTION_ROWS rows of a head, 8 in the registers of each simdgroup, and iterates
// over COLUMNS rows of another at a time: with KEYS its own rows are keys and values, and the others
// are rows of all heads of queries using them, in order; without KEYS, the other way round.
template <typename S, int HEAD, int COLUMNS, bool KEYS>
kernel void attention_grad(device const uchar* q [[buffer(0)]], device const uchar* k [[buffer(1)]],
                           device const uchar* v [[buffer(2)]], device const uchar* dout [[buffer(3)]],
                           device const float* lse [[buffer(4)]], device const float* delta [[buffer(5)]],
                           device uchar* first_grad [[buffer(6)]], device uchar* second_grad [[buffer(7)]],
                           device const int* lengths [[buffer(8)]], device const int* starts [[buffer(9)]],
                           device const uchar* bias [[buffer(10)]], constant Attention& p [[buffer(11)]],
                           constant Terms& t [[buffer(12)]], uint3 place [[threadgroup_position_in_grid]],
                           uint id [[thread_index_in_threadgroup]]) {
  threadgroup float4 room[tile_room(sizeof(S), HEAD, COLUMNS)];
  threadgroup S* a_tile = (threadgroup S*)room;
  threadgroup S* b_tile = a_tile + COLUMNS * (HEAD + ATTENTION_PAD);
  const uint lane = id % 32;
  const int first = int(place.x) * ATTENTION_ROWS, head = int(place.y), b = int(place.z);
  const int own = first + int(id) / 32 * 8 + matrix_row(lane), column = matrix_column(lane);
  const Sight sight = sight_of(p, t, lengths, starts, b);
  const int position = sight.position;
  const int own_heads = KEYS ? p.m : p.n, other_heads = KEYS ? p.n : p.m;
  const int own_rows = KEYS ? t.r : p.s, other_rows = KEYS ? p.s : t.r;
  const int own_read = KEYS ? sight.length : p.s, other_read = KEYS ? p.s : sight.length; // readable rows of each
  const int own_first = head_start(b, head, own_rows, own_heads, p.d) + own * own_heads * p.d;
  const int own_second = head_start(b, head, own_rows, own_heads, t.v) + own * own_heads * t.v;

  simdgroup_matrix<S, 8, 8> own_a[HEAD / 8], own_b[HEAD / 8];
  hold<S, HEAD>(own_a, KEYS ? k : q, own_first, own < own_read, p.d, column);
  hold<S, HEAD>(own_b, KEYS ? v : dout, own_second, own < own_read, t.v, column);
  simdgroup_float8x8 sum_a[HEAD / 8], sum_b[HEAD / 8];
  UNROLL
  for (int e = 0; e < HEAD / 8; e++) {
    sum_a[e] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    sum_b[e] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  }
  // Other rows unrelated to any own row are skipped.
  int begin = 0, end = other_read;
  if (KEYS) {
    if (p.causal != 0) {
      begin = max(first - position, 0) / COLUMNS * COLUMNS;
    }
    if (t.window > 0) {
      end = min(end, first + ATTENTION_ROWS - position + t.window);
    }
  } else {
    if (p.causal != 0) {
      end = min(end, position + min(p.s, first + ATTENTION_ROWS));
    }
    if (t.window > 0) {
      begin = max(position + first + 1 - t.window, 0) / COLUMNS * COLUMNS;
    }
  }
  const int heads = KEYS ? p.group : 1;
  for (int h = 0; h < heads; h++) {
    const int other = KEYS ? head * p.group + h - p.off : (p.off + head) / p.group;
    if (KEYS && (other < 0 || other >= p.n)) {
      continue; // another rank has this head of queries
    }
    const int start_a = head_start(b, other, other_rows, other_heads, p.d), start_b = head_start(b, other, other_rows, other_heads, t.v);
    const int queries = KEYS ? other : head;     // the head of queries
    const int row0 = (b * p.n + queries) * p.s; // of lse and delta
    for (int at = begin; at < end; at += COLUMNS) {
      threadgroup_barrier(mem_flags::mem_threadgroup);
      bring<S, HEAD, COLUMNS>(a_tile, KEYS ? q : k, start_a, at, other_read, other_heads * p.d, p.d, int(id));
      bring<S, HEAD, COLUMNS>(b_tile, KEYS ? dout : v, start_b, at, other_read, other_heads * t.v, t.v, int(id));
      threadgroup_barrier(mem_flags::mem_threadgroup);
      for (int c = 0; c < COLUMNS / 8; c++) {
        simdgroup_float8x8 weights = make_filled_simdgroup_matrix<float, 8, 8>(0.0f), slopes = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        scored<S, HEAD>(weights, own_a, a_tile, c);
        scored<S, HEAD>(slopes, own_b, b_tile, c);
        float2 weight = weights.thread_elements(), slope = slopes.thread_elements();
        UNROLL
        for (int i = 0; i < 2; i++) {
          const int theirs = at + c * 8 + column + i;
          const int query = KEYS ? theirs : own, key = KEYS ? own : theirs;
          if (attends(p, t, sight, query, key) && lse[row0 + query] != -INFINITY) {
            const float score = capped(t, p.scale * weight[i]);
            weight[i] = precise::exp(biased(t, score, bias, b, queries, query, key) - lse[row0 + query]);
            slope[i] = p.scale * weight[i] * (slope[i] - delta[row0 + query]);
            if (t.cap != 0.0f) {
              slope[i] *= 1.0f - (score / t.cap) * (score / t.cap);
            }
          } else {
            weight[i] = slope[i] = 0.0f;
          }
        }
        weights.thread_elements() = weight;
        slopes.thread_elements() = slope;
        UNROLL
        for (int e = 0; e < HEAD / 8; e++) {
          simdgroup_matrix<S, 8, 8> right;
          simdgroup_load(right, a_tile + c * 8 * (HEAD + ATTENTION_PAD) + e * 8, HEAD + ATTENTION_PAD);
          simdgroup_multiply_accumulate(sum_a[e], slopes, right, sum_a[e]);
          if (KEYS) {
            simdgroup_load(right, b_tile + c * 8 * (HEAD + ATTENTION_PAD) + e * 8, HEAD + ATTENTION_PAD);
            simdgroup_multiply_accumulate(sum_b[e], weights, right, sum_b[e]);
          }
        }
      }
    }
  }
  give<HEAD>(first_grad, own_first, own < own_rows, p.d, column, sum_a);
  if (KEYS) {
    give<HEAD>(second_grad, own_second, own < own_rows, t.v, column, sum_b);
  }
}

#define GRAD(suffix, S, HEAD, COLUMNS)                                                             \
  template [[host_name("attention_grad_q_" #HEAD "_" #suffix)]] kernel                             \
  decltype(attention_grad<S, HEAD, COLUMNS, false>) attention_grad<S, HEAD, COLUMNS, false>;       \
  template [[host_name("attention_grad_kv_" #HEAD "_" #suffix)]] kernel                            \
  decltype(attention_grad<S, HEAD, COLUMNS, true>) attention_grad<S, HEAD, COLUMNS, true>;
#define GRADS(suffix, S, COLUMNS)                                                                  \
  template [[host_name("attention_delta_" #suffix)]] kernel decltype(attention_delta<S>) attention_delta<S>; \
  GRAD(suffix, S, 32, COLUMNS)                                                                     \
  GRAD(suffix, S, 64, COLUMNS)                                                                     \
  GRAD(suffix, S, 96, COLUMNS)                                                                     \
  GRAD(suffix, S, 128, COLUMNS)

GRADS(f32, float, 16)
GRADS(f16, half, 32)
GRADS(bf16, bfloat, 32)
