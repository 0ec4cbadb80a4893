// Rows of heads for attention and its gradient. A simdgroup has 8 rows of one head in its registers,
// as matrices of 8 by 8, each thread having two elements of one row. Rows of another head are in
// threadgroup memory, shared by all simdgroups; 16-bit numbers stay 16-bit there. In a value
// [B,S,N,D], row t of head h in sequence b starts at ((b·S + t)·N + h)·D.
#include "attention_terms.metal"
#include "matrix_places.metal"
#include <metal_simdgroup_matrix>

#define ATTENTION_SIMDS 4
#define ATTENTION_ROWS (ATTENTION_SIMDS * 8)
#define ATTENTION_PAD 8 // elements after each row of a tile, so that columns fall into different banks

// tile_room returns the threadgroup memory of two tiles, in fours of floats.
static constexpr int tile_room(int size, int head, int rows) { return (2 * rows * (head + ATTENTION_PAD) * size + 15) / 16; }

// bring copies rows from `first` on of a head, with stride `apart` in elements, to a tile HEAD wide.
// A head starts at element `at` of x, whose type is the type of keys, and has `rows` rows of d
// elements.
template <typename S, int HEAD, int ROWS>
static inline void bring(threadgroup S* tile, device const uchar* x, int at, int first, int rows, int apart, int d, int tid) {
  for (int i = tid; i < ROWS * HEAD / 4; i += ATTENTION_SIMDS * 32) {
    const int row = first + i / (HEAD / 4), column = i % (HEAD / 4) * 4;
    const int left = row < rows ? d - column : 0;
    const uint from = uint(at + row * apart + column);
    float4 four = float4(0.0f);
    if (left >= 4 && d % 4 == 0 && KEYS_AS <= AS_BF16) {
      four = numbers(x, KEYS_AS, from);
    } else {
      if (left > 0) four.x = number(x, KEYS_AS, from);
      if (left > 1) four.y = number(x, KEYS_AS, from + 1);
      if (left > 2) four.z = number(x, KEYS_AS, from + 2);
      if (left > 3) four.w = number(x, KEYS_AS, from + 3);
    }
    threadgroup S* to = tile + i / (HEAD / 4) * (HEAD + ATTENTION_PAD) + column;
    to[0] = S(four.x);
    to[1] = S(four.y);
    to[2] = S(four.z);
    to[3] = S(four.w);
  }
}

// hold reads a thread's elements of its row, which has d elements from `at` on, and zeros if it does
// not exist. Elements have the type of queries.
template <typename S, int HEAD>
static inline void hold(thread simdgroup_matrix<S, 8, 8>* own, device const uchar* x, int at, bool there, int d, int column) {
  UNROLL
  for (int e = 0; e < HEAD / 8; e++) {
    const int i = e * 8 + column;
    own[e].thread_elements() = vec<S, 2>(there && i < d ? S(number(x, QUERIES_AS, uint(at + i))) : S(0.0f),
                                         there && i + 1 < d ? S(number(x, QUERIES_AS, uint(at + i + 1))) : S(0.0f));
  }
}

// give writes a thread's elements of its row, if it exists.
template <int HEAD>
static inline void give(device uchar* x, int at, bool there, int d, int column, thread simdgroup_float8x8* sums) {
  UNROLL
  for (int e = 0; e < HEAD / 8; e++) {
    const float2 pair = sums[e].thread_elements();
    const int i = e * 8 + column;
    if (there && i < d) {
      set_number(x, QUERIES_AS, uint(at + i), pair.x);
    }
    if (there && i + 1 < d) {
      set_number(x, QUERIES_AS, uint(at + i + 1), pair.y);
    }
  }
}

// scored adds the products of a simdgroup's rows with rows 8·c to 8·c+7 of a tile.
template <typename S, int HEAD>
static inline void scored(thread simdgroup_float8x8& scores, thread simdgroup_matrix<S, 8, 8>* own, threadgroup const S* tile, int c) {
  UNROLL
  for (int e = 0; e < HEAD / 8; e++) {
    simdgroup_matrix<S, 8, 8> right;
    simdgroup_load(right, tile + c * 8 * (HEAD + ATTENTION_PAD) + e * 8, HEAD + ATTENTION_PAD, ulong2(0, 0), true);
    simdgroup_multiply_accumulate(scores, own[e], right, scores);
  }
}
