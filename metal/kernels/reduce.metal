// Sums, products and extremes along an axis. The axis is divided into chunks. Each chunk is reduced
// as 8 parts, of every 8th element upwards, which are combined in pairs 4, 2 and 1 apart.
#include "exact.metal"
#include "zone_rows.metal"

static inline float2 shuffled(float2 x, ushort mask) { return float2(simd_shuffle_xor(x.x, mask), simd_shuffle_xor(x.y, mask)); }
static inline float shuffled(float x, ushort mask) { return simd_shuffle_xor(x, mask); }
static inline int shuffled(int x, ushort mask) { return simd_shuffle_xor(x, mask); }
static inline uint shuffled(uint x, ushort mask) { return simd_shuffle_xor(x, mask); }

// A reduction starts with start, adds elements by step, and combines parts. Floats are summed in
// pairs.
struct sum_of_floats {
  typedef float value;
  typedef float2 state;
  static state start() { return float2(0.0f, 0.0f); }
  static state step(state s, value x) { return pair_add(s, x); }
  static state join(state a, state b) { return pair_join(a, b); }
  static value end(state s) { return pair_value(s); }
};

template <typename T>
struct sum_of {
  typedef T value;
  typedef T state;
  static state start() { return T(0); }
  static state step(state s, value x) { return wrap_add(s, x); }
  static state join(state a, state b) { return wrap_add(a, b); }
  static value end(state s) { return s; }
};

template <typename T>
struct product_of {
  typedef T value;
  typedef T state;
  static state start() { return T(1); }
  static state step(state s, value x) { return wrap_mul(s, x); }
  static state join(state a, state b) { return wrap_mul(a, b); }
  static value end(state s) { return s; }
};

static inline float least(float) { return -INFINITY; }
static inline int least(int) { return -2147483647 - 1; }
static inline uint least(uint) { return 0u; }
static inline float greatest(float) { return INFINITY; }
static inline int greatest(int) { return 2147483647; }
static inline uint greatest(uint) { return 0xffffffffu; }

template <typename T>
struct maximum_of {
  typedef T value;
  typedef T state;
  static state start() { return least(T(0)); }
  static state step(state s, value x) { return maximum(s, x); }
  static state join(state a, state b) { return maximum(a, b); }
  static value end(state s) { return s; }
};

template <typename T>
struct minimum_of {
  typedef T value;
  typedef T state;
  static state start() { return greatest(T(0)); }
  static state step(state s, value x) { return minimum(s, x); }
  static state join(state a, state b) { return minimum(a, b); }
  static value end(state s) { return s; }
};

// p is the elements of the result, the length of the axis and of its chunks, the number of chunks,
// the stride of the axis in elements, the elements of a row of the result, the experts, 0 for rows
// that are not ragged, and the alignment of their rows.
static inline int reduce_kind(device const int* counts, constant int* p, int i) {
  if (i >= p[0]) {
    return row_past;
  }
  return p[6] > 0 ? row_kind(counts, p[6], p[7], i / p[5]) : row_used;
}

// reduce_lines reduces chunks of contiguous elements, each by 8 threads.
template <typename X, typename Y, typename Op>
kernel void reduce_lines(device const X* x [[buffer(0)]],
                         device Y* y [[buffer(1)]],
                         device const int* counts [[buffer(2)]],
                         constant int* p [[buffer(3)]],
                         uint gid [[thread_position_in_grid]]) {
  int i = int(gid / 8);
  int lane = int(gid % 8);
  int kind = reduce_kind(counts, p, i);
  int begin = i % p[3] * p[2];
  int end = kind == row_used ? min(begin + p[2], p[1]) : 0;
  int line = i / p[3] * p[1];
  typename Op::state s = Op::start();
  for (int k = begin + lane; k < end; k += 8) {
    s = Op::step(s, typename Op::value(x[line + k]));
  }
  s = Op::join(s, shuffled(s, 4));
  s = Op::join(s, shuffled(s, 2));
  s = Op::join(s, shuffled(s, 1));
  if (lane == 0 && kind == row_used) {
    y[i] = Y(Op::end(s));
  } else if (lane == 0 && kind == row_gap) {
    y[i] = Y(0);
  }
}

// reduce_columns reduces chunks of adjacent lines, each by a thread.
template <typename X, typename Y, typename Op>
kernel void reduce_columns(device const X* x [[buffer(0)]],
                           device Y* y [[buffer(1)]],
                           device const int* counts [[buffer(2)]],
                           constant int* p [[buffer(3)]],
                           uint gid [[thread_position_in_grid]]) {
  int i = int(gid);
  int kind = reduce_kind(counts, p, i);
  if (kind == row_used) {
    int chunk = i / p[4];
    int begin = chunk % p[3] * p[2];
    int end = min(begin + p[2], p[1]);
    int at = chunk / p[3] * p[1] * p[4] + i % p[4];
    typename Op::state s[8];
    for (int k = 0; k < 8; k++) {
      s[k] = Op::start();
    }
    for (int row = begin; row < end; row += 8) {
      for (int k = 0; k < 8; k++) {
        if (row + k < end) {
          s[k] = Op::step(s[k], typename Op::value(x[at + (row + k) * p[4]]));
        }
      }
    }
    for (int k = 0; k < 4; k++) {
      s[k] = Op::join(s[k], s[k + 4]);
    }
    s[0] = Op::join(Op::join(s[0], s[2]), Op::join(s[1], s[3]));
    y[i] = Y(Op::end(s[0]));
  } else if (kind == row_gap) {
    y[i] = Y(0);
  }
}

#define REDUCTION(name, X, Y, ...)                                                                                                    \
  template [[host_name("reduce_lines_" name)]] kernel decltype(reduce_lines<X, Y, __VA_ARGS__>) reduce_lines<X, Y, __VA_ARGS__>;           \
  template [[host_name("reduce_columns_" name)]] kernel decltype(reduce_columns<X, Y, __VA_ARGS__>) reduce_columns<X, Y, __VA_ARGS__>;

#define FLOATS(from, to, X, Y)                                  \
  REDUCTION("sum_" from "_" to, X, Y, sum_of_floats)            \
  REDUCTION("max_" from "_" to, X, Y, maximum_of<float>)        \
  REDUCTION("min_" from "_" to, X, Y, minimum_of<float>)

#define INTEGERS(from, X, T)                                    \
  REDUCTION("sum_" from "_" from, X, X, sum_of<T>)              \
  REDUCTION("prod_" from "_" from, X, X, product_of<T>)         \
  REDUCTION("max_" from "_" from, X, X, maximum_of<T>)          \
  REDUCTION("min_" from "_" from, X, X, minimum_of<T>)

FLOATS("f32", "f32", float, float)
FLOATS("bf16", "f32", bfloat, float)
FLOATS("bf16", "bf16", bfloat, bfloat)
FLOATS("f32", "bf16", float, bfloat)
FLOATS("f16", "f32", half, float)
FLOATS("f16", "f16", half, half)
FLOATS("f32", "f16", float, half)
INTEGERS("i32", int, int)
INTEGERS("u32", uint, uint)
INTEGERS("u8", uchar, uint)
