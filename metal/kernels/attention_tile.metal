// Tiles of heads in threadgroup memory, for attention. A head's rows lie in a value [B,S,N,D]:
// row t of head h in sequence b begins at ((b·S + t)·N + h)·D. Tiles are f32 and as wide as the
// wider of keys and values, rounded up to 8, with zeros where there is no element.
#include "attention_terms.metal"

constant int EIGHTS [[function_constant(0)]]; // matrices across a tile

// A simdgroup's sums across a head are an array of matrices. Registers have no index, so all
// loops over it are unrolled and count to a constant, and matrices beyond the head are left out.
#define MOST_EIGHTS 16
#define EACH_EIGHT(e) UNROLL for (int e = 0; e < MOST_EIGHTS; e++) if (e < EIGHTS)

// stage copies rows from `first` on of a head to a tile. All threads of the threadgroup
// take part; barriers are the caller's.
template <typename T>
static inline void stage(threadgroup float* tile, device const T* head, int first, int rows, int s, int apart, int d,
                         int tid, int threads) {
  int wide = EIGHTS * 8;
  for (int i = tid; i < rows * wide; i += threads) {
    int row = first + i / wide, column = i % wide;
    tile[i] = row < s && column < d ? float(head[row * apart + column]) : 0.0f;
  }
}

// stage_keys copies rows from `first` on of a head of keys or values to a tile. A head begins at
// element `at` of x, and has `rows` rows, `apart` elements apart.
static inline void stage_keys(threadgroup float* tile, device const uchar* x, int at, int first, int columns, int rows,
                              int apart, int d, int tid, int threads) {
  int wide = EIGHTS * 8;
  for (int i = tid; i < columns * wide; i += threads) {
    int row = first + i / wide, column = i % wide;
    tile[i] = row < rows && column < d ? number(x, KEYS_AS, uint(at + row * apart + column)) : 0.0f;
  }
}

// unstage copies 8 rows of a tile to a head, from row `first` on. A simdgroup does it.
template <typename T>
static inline void unstage(device T* head, threadgroup const float* tile, int first, int s, int apart, int d, int lane) {
  int wide = EIGHTS * 8;
  for (int i = lane; i < 8 * wide; i += 32) {
    int row = first + i / wide, column = i % wide;
    if (row < s && column < d) {
      head[row * apart + column] = T(tile[i]);
    }
  }
}

// products writes a[8, D] · bᵀ[columns, D] to out[8, columns]. A simdgroup does it.
static inline void products(threadgroup float* out, threadgroup const float* a, threadgroup const float* b, int columns) {
  int wide = EIGHTS * 8;
  for (int c = 0; c < columns; c += 8) {
    simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (int e = 0; e < EIGHTS; e++) {
      simdgroup_float8x8 left, right;
      simdgroup_load(left, a + e * 8, wide);
      simdgroup_load(right, b + c * wide + e * 8, wide, ulong2(0, 0), true);
      simdgroup_multiply_accumulate(sum, left, right, sum);
    }
    simdgroup_store(sum, out + c, columns);
  }
}

// accumulate adds weights[8, columns] · rows[columns, D] to the matrices of sum[8, D].
static inline void accumulate(thread simdgroup_float8x8* sum, threadgroup const float* weights,
                              threadgroup const float* rows, int columns) {
  int wide = EIGHTS * 8;
  for (int c = 0; c < columns; c += 8) {
    simdgroup_float8x8 left;
    simdgroup_load(left, weights + c, columns);
    EACH_EIGHT(e) {
      simdgroup_float8x8 right;
      simdgroup_load(right, rows + c * wide + e * 8, wide);
      simdgroup_multiply_accumulate(sum[e], left, right, sum[e]);
    }
  }
}
