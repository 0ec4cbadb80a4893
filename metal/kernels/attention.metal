// Scaled dot-product attention: out_i = Σ_j exp(s_ij - lse_i) v_j, lse_i = log Σ_j exp(s_ij), s_ij =
// cap(scale · q_i·k_j) + bias_ij, over the keys that query i attends to, a tile of keys at a time;
// sums are rescaled after a larger score. Source: Dao and others, "FlashAttention" (2022).
//
// Queries, scores and sums are in registers, so that only keys and values are read from threadgroup
// memory.
#include "attention_tile.metal"

// attention has a threadgroup for every ATTENTION_ROWS rows of a head of queries.
template <typename S, int HEAD, int KEYS>
kernel void attention(device const uchar* q [[buffer(0)]], device const uchar* k [[buffer(1)]],
                      device const uchar* v [[buffer(2)]], device uchar* out [[buffer(3)]],
                      device float* lse [[buffer(4)]], device const int* lengths [[buffer(5)]],
                      device const int* starts [[buffer(6)]], device const uchar* sinks [[buffer(7)]],
                      device const uchar* bias [[buffer(8)]], constant Attention& p [[buffer(9)]],
                      constant Terms& t [[buffer(10)]], uint3 place [[threadgroup_position_in_grid]],
                      uint id [[thread_index_in_threadgroup]]) {
  threadgroup float4 room[tile_room(sizeof(S), HEAD, KEYS)];
  threadgroup S* key_tile = (threadgroup S*)room;
  threadgroup S* value_tile = key_tile + KEYS * (HEAD + ATTENTION_PAD);
  const uint lane = id % 32;
  const int team = int(id) / 32, head = int(place.y), b = int(place.z);
  const int other = (p.off + head) / p.group;
  const int keys = head_start(b, other, t.r, p.m, p.d), values = head_start(b, other, t.r, p.m, t.v);
  const int first = int(place.x) * ATTENTION_ROWS, query = first + team * 8 + matrix_row(lane), column = matrix_column(lane);

  simdgroup_matrix<S, 8, 8> queries[HEAD / 8];
  simdgroup_float8x8 sum[HEAD / 8];
  hold<S, HEAD>(queries, q, head_start(b, head, p.s, p.n, p.d) + query * p.n * p.d, query < p.s, p.d, column);
  UNROLL
  for (int e = 0; e < HEAD / 8; e++) {
    sum[e] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  }
  // Four threads share a row of the scores: its largest so far, and the sum of exponentials.
  float top = -INFINITY, total = 0.0f;
  if (t.has_sinks != 0) {
    top = number(sinks, SINKS_AS, uint(head));
    total = 1.0f;
  }

  const Sight sight = sight_of(p, t, lengths, starts, b);
  const int end = p.causal != 0 ? min(sight.length, sight.position + min(p.s, first + ATTENTION_ROWS)) : sight.length;
  const int begin = t.window > 0 ? max(sight.position + first + 1 - t.window, 0) / KEYS * KEYS : 0;
  for (int at = begin; at < end; at += KEYS) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    bring<S, HEAD, KEYS>(key_tile, k, keys, at, sight.length, p.m * p.d, p.d, int(id));
    bring<S, HEAD, KEYS>(value_tile, v, values, at, sight.length, p.m * t.v, t.v, int(id));
    threadgroup_barrier(mem_flags::mem_threadgroup);

    simdgroup_float8x8 scores[KEYS / 8];
    UNROLL
    for (int c = 0; c < KEYS / 8; c++) {
      scores[c] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
      scored<S, HEAD>(scores[c], queries, key_tile, c);
    }
    float larger = top;
    UNROLL
    for (int c = 0; c < KEYS / 8; c++) {
      const float2 pair = scores[c].thread_elements();
      const int key = at + c * 8 + column;
      float2 score = float2(-INFINITY, -INFINITY);
      if (attends(p, t, sight, query, key)) {
        score.x = biased(t, capped(t, p.scale * pair.x), bias, b, head, query, key);
      }
      if (attends(p, t, sight, query, key + 1)) {
        score.y = biased(t, capped(t, p.scale * pair.y), bias, b, head, query, key + 1);
      }
      larger = max(larger, max(score.x, score.y));
      scores[c].thread_elements() = score;
    }
    larger = max(larger, simd_shuffle_xor(larger, ushort(1)));
    larger = max(larger, simd_shuffle_xor(larger, ushort(8)));
    const float fade = larger == top ? 1.0f : precise::exp(top - larger);
    const float shift = larger == -INFINITY ? 0.0f : larger;
    float more = 0.0f;
    UNROLL
    for (int c = 0; c < KEYS / 8; c++) {
      const float2 score = scores[c].thread_elements();
      const float2 weight = float2(score.x == -INFINITY ? 0.0f : precise::exp(score.x - shift), score.y == -INFINITY ? 0.0f : precise::exp(score.y - shift));
      more += weight.x;
      more += weight.y;
      scores[c].thread_elements() = weight;
    }
    more += simd_shuffle_xor(more, ushort(1));
    more += simd_shuffle_xor(more, ushort(8));
    total = total * fade + more;
    top = larger;
    UNROLL
    for (int e = 0; e < HEAD / 8; e++) {
      const float2 faded = sum[e].thread_elements() * fade;
      sum[e].thread_elements() = faded;
      UNROLL
      for (int c = 0; c < KEYS / 8; c++) {
        simdgroup_matrix<S, 8, 8> right;
        simdgroup_load(right, value_tile + c * 8 * (HEAD + ATTENTION_PAD) + e * 8, HEAD + ATTENTION_PAD);
        simdgroup_multiply_accumulate(sum[e], scores[c], right, sum[e]);
      }
    }
  }

  UNROLL
  for (int e = 0; e < HEAD / 8; e++) {
    const float2 pair = sum[e].thread_elements();
    sum[e].thread_elements() = total == 0.0f ? float2(0.0f) : pair / total;
  }
  give<HEAD>(out, head_start(b, head, p.s, p.n, t.v) + query * p.n * t.v, query < p.s, t.v, column, sum);
  if (column == 0 && query < p.s) {
    lse[(b * p.n + head) * p.s + query] = top + precise::log(total);
  }
}

#define ATTENTION(name, ...) template [[host_name(name)]] kernel decltype(attention<__VA_ARGS__>) attention<__VA_ARGS__>;

ATTENTION("attention_32_f32", float, 32, 16)
ATTENTION("attention_64_f32", float, 64, 16)
ATTENTION("attention_96_f32", float, 96, 16)
ATTENTION("attention_128_f32", float, 128, 16)
ATTENTION("attention_32_f16", half, 32, 32)
ATTENTION("attention_64_f16", half, 64, 32)
ATTENTION("attention_96_f16", half, 96, 32)
ATTENTION("attention_128_f16", half, 128, 32)
ATTENTION("attention_32_bf16", bfloat, 32, 32)
ATTENTION("attention_64_bf16", bfloat, 64, 32)
ATTENTION("attention_96_bf16", bfloat, 96, 32)
ATTENTION("attention_128_bf16", bfloat, 128, 32)
