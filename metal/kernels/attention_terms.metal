// The keys that a query attends to, and their scores, for attention and its gradient.
#include "numbers.metal"

// Head i of the rank's n heads of queries uses head (off + i) / group of its m heads of keys.
struct Attention {
  int s, n, m, d;
  float scale;
  int causal, off, group;
};

// Codes of the element types of keys and values, of the bias, of sinks, and of queries and results.
constant int KEYS_AS [[function_constant(1)]];
constant int BIAS_AS [[function_constant(2)]];
constant int SINKS_AS [[function_constant(3)]];
constant int QUERIES_AS [[function_constant(4)]];

// The terms of attention in addition to queries, keys and values. has_ marks the arguments present;
// window and cap are 0 without one. bias_b and bias_n are the strides of sequences and heads in the
// bias, in elements, 0 if it is broadcast.
struct Terms {
  int r, v, window;
  float cap;
  int has_lengths, has_start, has_sinks, has_bias, bias_b, bias_n;
};

// Sight is the range of keys visible to a sequence's queries: keys before length and, for query i
// with a causal mask or a window, the keys around position + i.
struct Sight {
  int length, position;
};

// sight_of returns the sight of sequence b. An invalid length is reported elsewhere; here nothing
// is read out of bounds.
static inline Sight sight_of(constant Attention& p, constant Terms& t, device const int* lengths,
                             device const int* starts, int b) {
  Sight s;
  s.length = t.has_lengths != 0 ? clamp(lengths[b], 0, t.r) : t.r;
  s.position = t.has_start != 0 ? clamp(starts[b], -(1 << 29), 1 << 29) : s.length - p.s;
  return s;
}

// attends reports whether a query, if it exists, attends to a key.
static inline bool attends(constant Attention& p, constant Terms& t, Sight s, int query, int key) {
  int at = s.position + query;
  return query < p.s && key < s.length && (p.causal == 0 || key <= at) && (t.window == 0 || key > at - t.window);
}

static inline float capped(constant Terms& t, float score) {
  return t.cap == 0.0f ? score : t.cap * precise::tanh(score / t.cap);
}

static inline float biased(constant Terms& t, float score, device const uchar* bias, int b, int head, int query, int key) {
  return t.has_bias == 0 ? score : score + number(bias, BIAS_AS, uint(b * t.bias_b + head * t.bias_n + query * t.r + key));
}

// head_start returns the start of row 0 of a head; the row stride is n·d.
static inline int head_start(int b, int h, int s, int n, int d) { return (b * s * n + h) * d; }
