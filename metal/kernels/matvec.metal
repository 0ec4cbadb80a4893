// Products of few rows with a matrix, as when decoding one token: they read every element of the
// matrix once, and no other memory matters. a_as, b_as and c_as are the types of rows, matrix and
// result.
//
// If the summed elements are contiguous in the matrix (along), a simdgroup computes a few columns: a
// thread has units of each, and the threads' sums are added. If the columns are contiguous (across), a
// thread has four, and every MATVEC_WAYS-th element of the sum; the sums are added in order. The
// assignment to threads does not depend on the number of rows or columns, so neither do the bits of an
// element.
#include "block_units.metal"
#include "operands.metal"
#include <metal_simdgroup>

#define MATVEC_SIMDS 4       // simdgroups of a threadgroup, along
#define MATVEC_MOST 4        // columns of a simdgroup, along, of plain numbers
#define MATVEC_BLOCKS 2      // and of blocks
#define MATVEC_ROWS 4        // rows at a time
#define MATVEC_WIDE 64       // columns of a threadgroup, across
#define MATVEC_THREADS 256   // threads of a threadgroup, across
#define MATVEC_WAYS (MATVEC_THREADS * 4 / MATVEC_WIDE)

// matvec_operands are rows x of `deep` elements, with a stride of `apart` elements, starting at
// `start`; and a matrix with strides of `line` elements between columns and `step` along the sum.
struct matvec_operands {
  device const uchar* x;
  device const uchar* w;
  uint start, apart;
  uint line, step;
  int rows, cols, deep;
};

// matvec_columns returns the number of columns of a simdgroup, along.
static inline int matvec_columns() { return b_as >= AS_Q8_0 ? MATVEC_BLOCKS : MATVEC_MOST; }

// row_four returns 4 elements of a row, with `left` elements remaining.
static inline float4 row_four(thread const matvec_operands& o, int row, int k, int left) {
  const uint at = o.start + uint(row) * o.apart + uint(k);
  if (a_fours && left >= 4) {
    return numbers(o.x, a_as, at);
  }
  return float4(left > 0 ? number(o.x, a_as, at) : 0.0f, left > 1 ? number(o.x, a_as, at + 1) : 0.0f,
                left > 2 ? number(o.x, a_as, at + 2) : 0.0f, left > 3 ? number(o.x, a_as, at + 3) : 0.0f);
}

// matvec_plain adds the products of a thread's elements of the columns from `first` on.
template <int ROWS>
static inline void matvec_plain(thread const matvec_operands& o, int first, uint lane, thread float* sums) {
  for (int k = int(lane) * 4; k < o.deep; k += 128) {
    const int left = o.deep - k;
    float4 x[ROWS];
    UNROLL
    for (int r = 0; r < ROWS; r++) {
      x[r] = r < o.rows ? row_four(o, r, k, left) : float4(0.0f);
    }
    UNROLL
    for (int c = 0; c < MATVEC_MOST; c++) {
      if (first + c < o.cols) {
        const uint at = uint(first + c) * o.line + uint(k);
        float4 w = float4(0.0f);
        if (b_fours && left >= 4) {
          w = numbers(o.w, b_as, at);
        } else {
          w.x = number(o.w, b_as, at);
          w.y = left > 1 ? number(o.w, b_as, at + 1) : 0.0f;
          w.z = left > 2 ? number(o.w, b_as, at + 2) : 0.0f;
          w.w = left > 3 ? number(o.w, b_as, at + 3) : 0.0f;
        }
        UNROLL
        for (int r = 0; r < ROWS; r++) {
          float s = sums[r * MATVEC_MOST + c];
          s += x[r].x * w.x;
          s += x[r].y * w.y;
          s += x[r].z * w.z;
          s += x[r].w * w.w;
          sums[r * MATVEC_MOST + c] = s;
        }
      }
    }
  }
}

// row_unit loads the elements of a row that multiply a unit starting at element k.
static inline void row_unit(thread const matvec_operands& o, int row, uint k, thread float* x) {
  const uint at = o.start + uint(row) * o.apart + k;
  UNROLL
  for (int e = 0; e < 32; e += 4) {
    if (a_fours && unit_shape(b_as) != UNIT_TWOS) {
      const float4 four = numbers(o.x, a_as, at + unit_element(b_as, e));
      x[e] = four.x;
      x[e + 1] = four.y;
      x[e + 2] = four.z;
      x[e + 3] = four.w;
    } else {
      UNROLL
      for (int i = 0; i < 4; i++) {
        x[e + i] = number(o.x, a_as, at + unit_element(b_as, e + i));
      }
    }
  }
}

// matvec_units is matvec_plain for a matrix in blocks.
template <int ROWS>
static inline void matvec_units(thread const matvec_operands& o, int first, uint lane, thread float* sums) {
  const ulong bytes = block_bytes(b_as, uint(o.deep));
  for (uint u = lane; u < uint(o.deep) / 32; u += 32) {
    const uint k = unit_start(b_as, u);
    float x[32];
    if (ROWS == 1) {
      row_unit(o, 0, k, x);
    }
    UNROLL
    for (int c = 0; c < MATVEC_BLOCKS; c++) {
      if (first + c < o.cols) {
        float w[32];
        block_unit(o.w + ulong(first + c) * bytes, b_as, u, w);
        UNROLL
        for (int r = 0; r < ROWS; r++) {
          if (r < o.rows) {
            if (ROWS > 1) {
              row_unit(o, r, k, x);
            }
            float s = sums[r * MATVEC_MOST + c];
            UNROLL
            for (int e = 0; e < 32; e++) {
              s += x[e] * w[e];
            }
            sums[r * MATVEC_MOST + c] = s;
          }
        }
      }
    }
  }
}

// matvec_total adds the sums of a simdgroup's threads, returning the total in all of them.
template <int ROWS>
static inline void matvec_total(thread const matvec_operands& o, int first, thread float* sums) {
  UNROLL
  for (int r = 0; r < ROWS; r++) {
    UNROLL
    for (int i = 0; i < MATVEC_MOST; i++) {
      if (r < o.rows && i < matvec_columns() && first + i < o.cols) {
        sums[r * MATVEC_MOST + i] = simd_sum(sums[r * MATVEC_MOST + i]);
      }
    }
  }
}

// matvec_sums computes the columns from `first` on of ROWS rows: row r and column c is sums[r ·
// MATVEC_MOST + c] in all threads.
template <int ROWS>
static inline void matvec_sums(thread const matvec_operands& o, int first, uint lane, thread float* sums) {
  UNROLL
  for (int i = 0; i < ROWS * MATVEC_MOST; i++) {
    sums[i] = 0.0f;
  }
  if (b_as >= AS_Q8_0) {
    matvec_units<ROWS>(o, first, lane, sums);
  } else {
    matvec_plain<ROWS>(o, first, lane, sums);
  }
  matvec_total<ROWS>(o, first, sums);
}

// matvec_put writes the columns from `first` on of ROWS rows, row r and column c to
// c_start + r·c_row + c·c_col, times a weight.
template <int ROWS>
static inline void matvec_put(thread const matvec_operands& o, int first, device uchar* c, uint c_start, uint c_row, uint c_col,
                              float weight, uint lane, thread const float* sums) {
  UNROLL
  for (int r = 0; r < ROWS; r++) {
    UNROLL
    for (int i = 0; i < MATVEC_MOST; i++) {
      if (lane == 0 && r < o.rows && i < matvec_columns() && first + i < o.cols) {
        set_number(c, c_as, c_start + uint(r) * c_row + uint(first + i) * c_col, sums[r * MATVEC_MOST + i] * weight);
      }
    }
  }
}

// matvec_along computes columns and writes them, like matvec_put.
template <int ROWS>
static inline void matvec_along(thread const matvec_operands& o, int first, device uchar* c, uint c_start, uint c_row, uint c_col,
                                float weight, uint lane) {
  float sums[ROWS * MATVEC_MOST];
  matvec_sums<ROWS>(o, first, lane, sums);
  matvec_put<ROWS>(o, first, c, c_start, c_row, c_col, weight, lane, sums);
}

// A thread's first column of four, and its elements of the sum, across.
static inline int across_column(int first, uint index) { return first + int(index) % (MATVEC_WIDE / 4) * 4; }
static inline int across_way(uint index) { return int(index) / (MATVEC_WIDE / 4); }

// across_parts computes a thread's sums of four columns of ROWS rows.
template <int ROWS>
static inline void across_parts(thread const matvec_operands& o, int first, uint index, thread float4* sums) {
  const int column = across_column(first, index), left = o.cols - column;
  UNROLL
  for (int r = 0; r < ROWS; r++) {
    sums[r] = float4(0.0f);
  }
  for (int k = across_way(index); k < o.deep && left > 0; k += MATVEC_WAYS) {
    const uint at = uint(k) * o.step + uint(column);
    float4 w = float4(0.0f);
    if (b_fours && left >= 4) {
      w = numbers(o.w, b_as, at);
    } else {
      w.x = number(o.w, b_as, at);
      w.y = left > 1 ? number(o.w, b_as, at + 1) : 0.0f;
      w.z = left > 2 ? number(o.w, b_as, at + 2) : 0.0f;
      w.w = left > 3 ? number(o.w, b_as, at + 3) : 0.0f;
    }
    UNROLL
    for (int r = 0; r < ROWS; r++) {
      if (r < o.rows) {
        const float4 products = number(o.x, a_as, o.start + uint(r) * o.apart + uint(k)) * w;
        sums[r] += products;
      }
    }
  }
}

// across_total adds the threads' sums of a row, and returns the sum of column first + index to the
// first MATVEC_WIDE threads. room has MATVEC_WAYS / 2 · MATVEC_WIDE numbers. All threads call it.
static inline float across_total(float4 sum, int first, threadgroup float* room, uint index) {
  sum += simd_shuffle_xor(sum, ushort(16)); // the two halves of a simdgroup have the same columns
  if (index % 32 < 16) {
    *(threadgroup float4*)(room + across_way(index) / 2 * MATVEC_WIDE + (across_column(first, index) - first)) = sum;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float all = 0.0f;
  if (int(index) < MATVEC_WIDE) {
    UNROLL
    for (int i = 0; i < MATVEC_WAYS / 2; i++) {
      all += room[i * MATVEC_WIDE + int(index)];
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return all;
}

// across_put writes MATVEC_WIDE columns from `first` on of ROWS rows, like matvec_put, given the
// threads' sums.
template <int ROWS>
static inline void across_put(thread const matvec_operands& o, int first, device uchar* c, uint c_start, uint c_row, uint c_col,
                              float weight, threadgroup float* room, uint index, thread const float4* sums) {
  const int own = first + int(index);
  UNROLL
  for (int r = 0; r < ROWS; r++) {
    if (r < o.rows) {
      const float all = across_total(sums[r], first, room, index);
      if (int(index) < MATVEC_WIDE && own < o.cols) {
        set_number(c, c_as, c_start + uint(r) * c_row + uint(own) * c_col, all * weight);
      }
    }
  }
}

// matvec_across computes columns and writes them, like across_put.
template <int ROWS>
static inline void matvec_across(thread const matvec_operands& o, int first, device uchar* c, uint c_start, uint c_row, uint c_col,
                                 float weight, threadgroup float* room, uint index) {
  float4 sums[ROWS];
  across_parts<ROWS>(o, first, index, sums);
  across_put<ROWS>(o, first, c, c_start, c_row, c_col, weight, room, index, sums);
}
