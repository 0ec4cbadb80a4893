// Tiles of heads in threadgroup memory, for attention. A head's rows lie in a value [B,S,N,D]:
// row t of head h in sequence b begins at ((b·S + t)·N + h)·D. Tiles are f32 and as wide as D
// rounded up to 8, with zeros where there is no element.
#include "common.metal"

constant int EIGHTS [[function_constant(0)]]; // D / 8, rounded up: matrices across a head

// A simdgroup's sums across a head are an array of matrices. Registers have no index, so all
// loops over it are unrolled and count to a constant, and matrices beyond the head are left out.
#define MOST_EIGHTS 16
#define UNROLL _Pragma("clang loop unroll(full)")
#define EACH_EIGHT(e) UNROLL for (int e = 0; e < MOST_EIGHTS; e++) if (e < EIGHTS)

// Head i of the rank's n heads of queries uses head (off + i) / group of its m heads of keys.
struct Attention {
  int s, n, m, d;
  float scale;
  int causal, off, group;
};

// head_start returns where row 0 of a head begins; rows are n·d apart.
static inline int head_start(int b, int h, int s, int n, int d) { return (b * s * n + h) * d; }

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
