// Scaled dot-product attention: out_i = Σ_j exp(s_ij - lse_i) v_j, lse_i = log Σ_j exp(s_ij),
// s_ij = cap(scale · q_i·k_j) + bias_ij, over the keys that query i attends to. Scores live in
// threadgroup memory, a tile at a time; sums are rescaled when a larger score comes. Source: Dao
// and others, "FlashAttention" (2022).
#include "attention_tile.metal"

// A threadgroup does ROWS rows of a head of queries, 8 per simdgroup, over COLUMNS keys at
// a time. Tiles are as wide as the wider of keys and values. room holds the queries,
// ROWS·wide; keys, then values, COLUMNS·wide; scores, ROWS·COLUMNS; and a matrix per simdgroup.
template <typename T, int ROWS, int COLUMNS>
kernel void attention(device const T* q [[buffer(0)]], device const uchar* k [[buffer(1)]],
                             device const uchar* v [[buffer(2)]], device T* out [[buffer(3)]],
                             device float* lse [[buffer(4)]], device const int* lengths [[buffer(5)]],
                             device const int* starts [[buffer(6)]], device const uchar* sinks [[buffer(7)]],
                             device const uchar* bias [[buffer(8)]], constant Attention& p [[buffer(9)]],
                             constant Terms& t [[buffer(10)]], threadgroup float* room [[threadgroup(0)]],
                             uint3 place [[threadgroup_position_in_grid]], uint id [[thread_index_in_threadgroup]]) {
  constexpr int threads = ROWS / 8 * 32;
  int tid = int(id), lane = tid % 32, team = tid / 32;
  int wide = EIGHTS * 8;
  int first = int(place.x) * ROWS, head = int(place.y), b = int(place.z);
  int other = (p.off + head) / p.group;
  int keys = head_start(b, other, t.r, p.m, p.d), values = head_start(b, other, t.r, p.m, t.v);

  threadgroup float* queries = room;
  threadgroup float* tile = queries + ROWS * wide;
  threadgroup float* scores = tile + COLUMNS * wide + team * 8 * COLUMNS;
  threadgroup float* diagonal = tile + COLUMNS * wide + ROWS * COLUMNS + team * 64;
  stage(queries, q + head_start(b, head, p.s, p.n, p.d), first, ROWS, p.s, p.n * p.d, p.d, tid, threads);

  simdgroup_float8x8 sum[MOST_EIGHTS];
  EACH_EIGHT(e) {
    sum[e] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  }
  // Four lanes have a row of the scores: its largest so far, and the sum of exponentials.
  int row = lane / 4, query = first + team * 8 + row;
  float top = -INFINITY, total = 0.0f;
  if (t.has_sinks != 0) {
    top = number(sinks, SINKS_AS, uint(head));
    total = 1.0f;
  }

  Sight sight = sight_of(p, t, lengths, starts, b);
  int length = sight.length, position = sight.position;
  int end = p.causal != 0 ? min(length, position + min(p.s, first + ROWS)) : length;
  int begin = t.window > 0 ? max(position + first + 1 - t.window, 0) / COLUMNS * COLUMNS : 0;
  for (int at = begin; at < end; at += COLUMNS) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    stage_keys(tile, k, keys, at, COLUMNS, length, p.m * p.d, p.d, tid, threads);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    products(scores, queries + team * 8 * wide, tile, COLUMNS);
    simdgroup_barrier(mem_flags::mem_threadgroup);

    float larger = top;
    for (int c = lane % 4; c < COLUMNS; c += 4) {
      int key = at + c;
      float score = -INFINITY;
      if (attends(p, t, sight, query, key)) {
        score = biased(t, capped(t, p.scale * scores[row * COLUMNS + c]), bias, b, head, query, key);
        larger = max(larger, score);
      }
      scores[row * COLUMNS + c] = score;
    }
    larger = max(larger, simd_shuffle_xor(larger, 1));
    larger = max(larger, simd_shuffle_xor(larger, 2));
    float fade = larger == top ? 1.0f : precise::exp(top - larger);
    float shift = larger == -INFINITY ? 0.0f : larger;
    float more = 0.0f;
    for (int c = lane % 4; c < COLUMNS; c += 4) {
      float score = scores[row * COLUMNS + c];
      float weight = score == -INFINITY ? 0.0f : precise::exp(score - shift);
      scores[row * COLUMNS + c] = weight;
      more += weight;
    }
    more += simd_shuffle_xor(more, 1);
    more += simd_shuffle_xor(more, 2);
    total = total * fade + more;
    top = larger;
    for (int c = lane % 4; c < 8; c += 4) {
      diagonal[row * 8 + c] = c == row ? fade : 0.0f;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    stage_keys(tile, v, values, at, COLUMNS, length, p.m * t.v, t.v, tid, threads);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_float8x8 fades;
    simdgroup_load(fades, diagonal, 8);
    EACH_EIGHT(e) {
      simdgroup_float8x8 faded;
      simdgroup_multiply(faded, fades, sum[e]);
      sum[e] = faded;
    }
    accumulate(sum, scores, tile, COLUMNS);
  }

  // The rows of queries are this simdgroup's own: results take their place.
  threadgroup float* results = queries + team * 8 * wide;
  threadgroup_barrier(mem_flags::mem_threadgroup); // where there are no keys, queries are being staged
  EACH_EIGHT(e) {
    simdgroup_store(sum[e], results + e * 8, wide);
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  for (int c = lane % 4; c < wide; c += 4) {
    results[row * wide + c] = total == 0.0f ? 0.0f : results[row * wide + c] / total;
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  unstage(out + head_start(b, head, p.s, p.n, t.v), results, first + team * 8, p.s, p.n * t.v, t.v, lane);
  if (lane % 4 == 0 && query < p.s) {
    lse[(b * p.n + head) * p.s + query] = top + precise::log(total);
  }
}

#define INSTANTIATE(suffix, T)                                                        \
  template [[host_name("attention_32_" #suffix)]] [[kernel]]                   \
  decltype(attention<T, 32, 32>) attention<T, 32, 32>;                  \
  template [[host_name("attention_16_" #suffix)]] [[kernel]]                   \
  decltype(attention<T, 16, 32>) attention<T, 16, 32>;
INSTANTIATE(f32, float)
INSTANTIATE(f16, half)
INSTANTIATE(bf16, bfloat)
