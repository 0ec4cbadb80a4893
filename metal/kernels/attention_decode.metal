// Attention of few queries over a long cache, split over the cache's length: a threadgroup processes
// DECODE_KEYS keys for the heads of queries sharing a head of keys, reading each number of the keys
// once; attention_join then combines the parts. The split does not depend on the number of keys, so
// neither do the bits.
#include "attention_terms.metal"
#include <metal_simdgroup>

#define DECODE_KEYS 256  // keys of a threadgroup
#define DECODE_SIMDS 8   // simdgroups of a threadgroup, which process keys in turn

struct Parts {
  int parts;         // of the cache
  int first_other;   // the first head of keys used by the rank's heads of queries
  int passes;        // threadgroups for the heads of queries sharing a head of keys
};

// attention_decode writes, for every query, head and part, HEAD sums, the largest score, and the sum
// of exponentials. It processes at most GROUP heads of queries at a time.
template <int HEAD, int GROUP>
kernel void attention_decode(device const uchar* q [[buffer(0)]], device const uchar* k [[buffer(1)]],
                             device const uchar* v [[buffer(2)]], device float* parts [[buffer(3)]],
                             device const int* lengths [[buffer(4)]], device const int* starts [[buffer(5)]],
                             device const uchar* bias [[buffer(6)]], constant Attention& p [[buffer(7)]],
                             constant Terms& t [[buffer(8)]], constant Parts& r [[buffer(9)]],
                             uint3 place [[threadgroup_position_in_grid]], uint team [[simdgroup_index_in_threadgroup]],
                             uint lane [[thread_index_in_simdgroup]]) {
  constexpr int own = HEAD / 32;
  threadgroup float room[DECODE_SIMDS * (HEAD + 2)];
  const int part = int(place.x), other = r.first_other + int(place.y) / r.passes, pass = int(place.y) % r.passes;
  const int b = int(place.z) / p.s, query = int(place.z) % p.s;
  const int first = max(other * p.group - p.off, 0) + pass * GROUP, past = min((other + 1) * p.group - p.off, p.n);
  const int keys = head_start(b, other, t.r, p.m, p.d), values = head_start(b, other, t.r, p.m, t.v);

  float x[GROUP][own], sums[GROUP][own], top[GROUP], total[GROUP];
  UNROLL
  for (int g = 0; g < GROUP; g++) {
    const int from = head_start(b, first + g, p.s, p.n, p.d) + query * p.n * p.d;
    top[g] = -INFINITY;
    total[g] = 0.0f;
    UNROLL
    for (int e = 0; e < own; e++) {
      const int d = int(lane) * own + e;
      x[g][e] = first + g < past && d < p.d ? number(q, QUERIES_AS, uint(from + d)) : 0.0f;
      sums[g][e] = 0.0f;
    }
  }
  const Sight sight = sight_of(p, t, lengths, starts, b);
  const int end = min((part + 1) * DECODE_KEYS, sight.length);
  for (int key = part * DECODE_KEYS + int(team); key < end; key += DECODE_SIMDS) {
    if (!attends(p, t, sight, query, key)) {
      continue; // all threads of the simdgroup
    }
    float y[own], z[own];
    UNROLL
    for (int e = 0; e < own; e++) {
      const int d = int(lane) * own + e;
      y[e] = d < p.d ? number(k, KEYS_AS, uint(keys + key * p.m * p.d + d)) : 0.0f;
      z[e] = d < t.v ? number(v, KEYS_AS, uint(values + key * p.m * t.v + d)) : 0.0f;
    }
    UNROLL
    for (int g = 0; g < GROUP; g++) {
      if (first + g < past) {
        float score = 0.0f;
        UNROLL
        for (int e = 0; e < own; e++) {
          score += x[g][e] * y[e];
        }
        score = biased(t, capped(t, p.scale * simd_sum(score)), bias, b, first + g, query, key);
        const float larger = max(top[g], score);
        const float fade = larger == top[g] ? 1.0f : precise::exp(top[g] - larger);
        const float weight = score == -INFINITY ? 0.0f : precise::exp(score - larger);
        total[g] = total[g] * fade + weight;
        top[g] = larger;
        UNROLL
        for (int e = 0; e < own; e++) {
          const float faded = sums[g][e] * fade;
          sums[g][e] = faded + weight * z[e];
        }
      }
    }
  }
  UNROLL
  for (int g = 0; g < GROUP; g++) {
    if (first + g < past) {
      threadgroup float* mine = room + int(team) * (HEAD + 2);
      UNROLL
      for (int e = 0; e < own; e++) {
        mine[int(lane) * own + e] = sums[g][e];
      }
      if (lane == 0) {
        mine[HEAD] = top[g];
        mine[HEAD + 1] = total[g];
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      float largest = -INFINITY;
      for (int i = 0; i < DECODE_SIMDS; i++) {
        largest = max(largest, room[i * (HEAD + 2) + HEAD]);
      }
      device float* to = parts + (((b * p.n + first + g) * p.s + query) * r.parts + part) * (HEAD + 2);
      for (int e = int(team * 32 + lane); e < HEAD + 2; e += DECODE_SIMDS * 32) {
        float sum = 0.0f;
        for (int i = 0; i < DECODE_SIMDS; i++) {
          const float of = room[i * (HEAD + 2) + HEAD];
          const float fade = of == -INFINITY ? 0.0f : precise::exp(of - largest);
          const float faded = room[i * (HEAD + 2) + (e == HEAD ? HEAD + 1 : e)] * fade;
          sum += faded;
        }
        // The largest score takes the last place, and the sum of exponentials the one before.
        to[e] = e == HEAD + 1 ? largest : sum;
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
  }
}

#define DECODE(name, ...) template [[host_name(name)]] kernel decltype(attention_decode<__VA_ARGS__>) attention_decode<__VA_ARGS__>;

DECODE("attention_decode_32_1", 32, 1)
DECODE("attention_decode_64_1", 64, 1)
DECODE("attention_decode_96_1", 96, 1)
DECODE("attention_decode_128_1", 128, 1)
DECODE("attention_decode_32_8", 32, 8)
DECODE("attention_decode_64_8", 64, 8)
DECODE("attention_decode_96_8", 96, 8)
DECODE("attention_decode_128_8", 128, 8)

// attention_join uses a simdgroup per query and head. Parts are combined in order.
kernel void attention_join(device const float* parts [[buffer(0)]], device uchar* out [[buffer(1)]], device float* lse [[buffer(2)]],
                           device const uchar* sinks [[buffer(3)]], constant Attention& p [[buffer(4)]], constant Terms& t [[buffer(5)]],
                           constant Parts& r [[buffer(6)]], constant int& wide [[buffer(7)]], uint3 place [[threadgroup_position_in_grid]],
                           uint lane [[thread_index_in_simdgroup]]) {
  const int query = int(place.x), head = int(place.y), b = int(place.z);
  const int at = (b * p.n + head) * p.s + query;
  device const float* from = parts + at * r.parts * (wide + 2);
  const float sink = t.has_sinks != 0 ? number(sinks, SINKS_AS, uint(head)) : -INFINITY;
  float top = sink;
  for (int i = 0; i < r.parts; i++) {
    top = max(top, from[i * (wide + 2) + wide + 1]);
  }
  float total = t.has_sinks != 0 ? precise::exp(sink - top) : 0.0f;
  for (int i = 0; i < r.parts; i++) {
    const float of = from[i * (wide + 2) + wide + 1];
    const float part = of == -INFINITY ? 0.0f : from[i * (wide + 2) + wide] * precise::exp(of - top);
    total += part;
  }
  for (int d = int(lane); d < t.v; d += 32) {
    float sum = 0.0f;
    for (int i = 0; i < r.parts; i++) {
      const float of = from[i * (wide + 2) + wide + 1];
      const float part = of == -INFINITY ? 0.0f : from[i * (wide + 2) + d] * precise::exp(of - top);
      sum += part;
    }
    set_number(out, QUERIES_AS, uint(head_start(b, head, p.s, p.n, t.v) + query * p.n * t.v + d), total == 0.0f ? 0.0f : sum / total);
  }
  if (lane == 0) {
    lse[at] = top + precise::log(total);
  }
}
